"""Reminders: what is due is claimed and queued, once a minute."""

import deckhand.light_start  # noqa: F401 - before what it keeps out

# isort: split
from typing import Any

from aws_lambda_powertools import Logger, Tracer

from deckhand.bootstrap import parts

logger = Logger()
tracer = Tracer()
sweeper = parts().sweeper()


@logger.inject_lambda_context(clear_state=True)
@tracer.capture_lambda_handler(capture_response=False)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return sweeper(event, context)
