"""Chat: start a turn, reattach to it, stop it. Answers stream."""

import deckhand.light_start  # noqa: F401 - before what it keeps out

# isort: split
import os
from typing import Any

from aws_lambda_powertools import Logger, Tracer

from deckhand.bootstrap import parts
from deckhand.edge.proxy_answer import joined, streams

logger = Logger()
tracer = Tracer()
app = parts().chat_app()


@logger.inject_lambda_context(clear_state=True)
@tracer.capture_lambda_handler(capture_response=False)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    answer = app(event, context)
    # Joined here, not by our runtime client only, for runtimes that are not ours.
    return answer if streams(os.environ) else joined(answer)
