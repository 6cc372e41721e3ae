"""The runtime client that streams: the official one, with two methods changed.

Python's managed runtime cannot stream an answer, so the exec wrapper starts
`python -m deckhand.edge.runtime <handler>` in its place. With `RESPONSE_MODE=stream` every proxy answer, errors
included, goes out in the streaming format, since a streaming route takes no other. In any other mode, and always under
SAM local (which cannot stream), bodies are joined into plain answers.

Protocol: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-custom.html#runtimes-custom-response-streaming
"""

import base64
import http.client
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awslambdaric import bootstrap  # type: ignore[import-untyped]
from awslambdaric.lambda_config import LambdaConfigProvider  # type: ignore[import-untyped]
from awslambdaric.lambda_runtime_client import LambdaRuntimeClient  # type: ignore[import-untyped]
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller  # type: ignore[import-untyped]

from deckhand.edge.proxy_answer import PRELUDE_END, chunks, is_proxy_answer, joined, prelude, streams

HTTP_INTEGRATION = "application/vnd.awslambda.http-integration-response"
ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
ERROR_BODY = "Lambda-Runtime-Function-Error-Body"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamedAnswer:
    """A marshalled answer that is still to be made: its prelude, and the chunks as they come."""

    prelude: bytes
    chunks: Iterator[bytes]


class StreamingMarshaller(LambdaMarshaller):  # type: ignore[misc]
    """Leaves a proxy answer's body unread when it is to be streamed, and joins it when not."""

    def __init__(self, *, streams: bool) -> None:
        super().__init__()
        self.streams = streams

    def marshal_response(self, response: Any) -> tuple[Any, str]:
        if not is_proxy_answer(response):
            result: tuple[Any, str] = super().marshal_response(response)
        elif self.streams:
            result = StreamedAnswer(prelude(response), chunks(response)), HTTP_INTEGRATION
        else:
            result = super().marshal_response(joined(response))
        return result


class StreamingRuntimeClient(LambdaRuntimeClient):  # type: ignore[misc]
    """Posts a streamed answer chunk by chunk; everything else is the official client's."""

    def __init__(self, address: str, use_thread_for_polling_next: bool = False, *, streams: bool) -> None:
        super().__init__(address, use_thread_for_polling_next)
        self.marshaller = StreamingMarshaller(streams=streams)

    def post_invocation_result(
        self, invoke_id: str, result_data: Any, content_type: str = "application/json", invocation_id: str | None = None
    ) -> None:
        if not isinstance(result_data, StreamedAnswer):
            super().post_invocation_result(invoke_id, result_data, content_type, invocation_id)
            return
        headers = {"Content-Type": content_type}
        if invocation_id is not None:
            headers["Lambda-Runtime-Invocation-Id"] = invocation_id
        upload = Upload(self.lambda_runtime_address, f"/2018-06-01/runtime/invocation/{invoke_id}/response", headers)
        fault: Exception | None = None
        try:
            # An own chunk each: when the delimiter shares one with the body, the first bytes have been seen to wait.
            upload.write(result_data.prelude)
            upload.write(PRELUDE_END)
            for chunk in result_data.chunks:
                upload.write(chunk)
        except Exception as error:
            fault = error
            logger.error("The body of a streamed answer failed: %s at %s", type(error).__name__, _place(error))
        upload.finish(fault)


class Upload:
    """One chunked request to the Runtime API.

    A lost connection makes it silent, not broken: writing goes on into nothing, so that the body is drained to its
    end. The run
    behind the body, and its finish, must happen whether or not anyone still listens.
    """

    def __init__(self, address: str, path: str, headers: Mapping[str, str]) -> None:
        self._connection = http.client.HTTPConnection(address)  # sets TCP_NODELAY
        self._lost = False
        try:
            self._connection.putrequest("POST", path, skip_accept_encoding=True)
            for name, value in headers.items():
                self._connection.putheader(name, value)
            self._connection.putheader("Lambda-Runtime-Function-Response-Mode", "streaming")
            self._connection.putheader("Transfer-Encoding", "chunked")
            self._connection.putheader("Trailer", f"{ERROR_TYPE}, {ERROR_BODY}")
            self._connection.putheader("Connection", "close")
            self._connection.endheaders()
        except OSError:
            self._lose()

    def write(self, data: bytes) -> None:
        """Send one chunk at once; `data` is not empty."""
        self._send(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self, fault: Exception | None) -> None:
        """End the body, with error trailers when it broke off, and take the Runtime API's answer."""
        trailers = b"" if fault is None else _trailers(fault)
        self._send(b"0\r\n" + trailers + b"\r\n")
        try:
            if not self._lost:
                status = self._connection.getresponse().status
                if status != http.HTTPStatus.ACCEPTED:
                    logger.error("The Runtime API refused a streamed answer", extra={"status": status})
        except (OSError, http.client.HTTPException):
            self._lose()
        self._connection.close()

    def _send(self, data: bytes) -> None:
        if not self._lost:
            try:
                self._connection.send(data)
            except OSError:
                self._lose()

    def _lose(self) -> None:
        self._lost = True
        self._connection.close()
        logger.warning("The Runtime API hung up; the answer is drained")


def _trailers(fault: Exception) -> bytes:
    """The error trailers. The type must be dotted, or the platform calls it Unknown; the message is a fixed one, as
    a fault's
    own text may quote what a user wrote."""
    kind = f"Function.{type(fault).__name__}"
    body = {"errorType": kind, "errorMessage": "The answer broke off.", "stackTrace": []}
    encoded = base64.b64encode(json.dumps(body).encode()).decode()
    return f"{ERROR_TYPE}: {kind}\r\n{ERROR_BODY}: {encoded}\r\n".encode()


def _place(error: Exception) -> str:
    """File and line of the fault; its text stays out of the log, as it may quote what a user wrote."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"


def extend_path(path: list[str], environ: Mapping[str, str]) -> None:
    """Put the function's folder first and the layers after it, as the managed bootstrap does."""
    layers = [f"/opt/python/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages", "/opt/python"]
    places = [environ.get("LAMBDA_TASK_ROOT", os.getcwd()), *layers]
    path[:] = places + [place for place in path if place not in places]


def main(arguments: Sequence[str]) -> None:
    """Serve invocations of the handler named in `arguments[1]`, for ever."""
    extend_path(sys.path, os.environ)
    config = LambdaConfigProvider(arguments)
    client = StreamingRuntimeClient(config.api_address, config.use_thread_polling, streams=streams(os.environ))
    bootstrap.run(config.handler, client)


if __name__ == "__main__":
    main(sys.argv)
