"""The model behind one address, over HTTP. The only module that imports the openai SDK, and only when a first call is
made: the import takes longer than the first byte of an answer may.

The SDK makes the request and keeps the connections; retries, times, forms and the stream itself are ours, since every
server differs in them.
"""

import asyncio
import copy
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from deckhand.agent.chat import Answer, StepRequest, TextDelta
from deckhand.agent.dialect import Body, Dialect, plainer, spoken, unlimited
from deckhand.agent.refusals import Refusal, TryFailed, cut, looks_like_html, refusal_of
from deckhand.agent.retry_after import retry_after
from deckhand.agent.step_timer import StepTimer
from deckhand.agent.stream import AnswerStream
from deckhand.agent.tries import Tries
from deckhand.domain.errors import ContextFull, GatewayFailed, GatewayUnreadable

if TYPE_CHECKING:
    from httpx2 import Request, Response
    from openai import AsyncOpenAI

logger = logging.getLogger(__name__)

CONNECT_S = 10.0
# After the finish reason only token counts can come; after [DONE] only the end of the body.
COUNTS_S = 2.0
DRAIN_S = 0.05
_HEAD_BYTES = 200
_HEADERS_OF_HTTP = {"host", "content-length", "connection"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`url` is the full address of chat completions, used exactly as it is. `api_key` is asked for at each request, as
    a secret may change, and may block; without a key there is no `Authorization`.
    """

    url: str
    api_key: Callable[[], str | None] = field(repr=False)
    model: str
    prompt_cache: bool


@dataclass(slots=True)
class _Learned:
    """What an endpoint was found not to understand."""

    dialect: Dialect


class HttpGateway:
    """A `ChatGateway`. What an endpoint was found not to understand is remembered for the life of the object."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        new_id: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._endpoint, self._new_id = endpoint, new_id
        self._sleep, self._clock, self._wall = sleep, clock, wall
        self._learned = _Learned(Dialect.of(endpoint.model, prompt_cache=endpoint.prompt_cache))
        self._again = True
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()

    def pinned(self, url: str) -> "HttpGateway":
        """The same model, key and connections at another address, and no request is ever made twice: what a refusal
        of the form teaches is for the next turn.
        """
        pinned = copy.copy(self)
        pinned._endpoint, pinned._again = replace(self._endpoint, url=url), False
        return pinned

    async def stream(self, request: StepRequest) -> AsyncGenerator[TextDelta | Answer, None]:
        """See `ChatGateway.stream`."""
        timer, tries = StepTimer(request.limits, self._clock), Tries()
        body, dialect, shown = self._body(request), self._learned.dialect, False
        first_dialect = dialect
        while True:
            try:
                async with aclosing(self._try(spoken(body, dialect), timer)) as items:
                    async for item in items:
                        self._learned.dialect, shown = dialect, True
                        yield item
                return
            except TryFailed as caught:
                failed = caught
            # Raised out here so that no upstream text hangs on our error.
            plain = _plainer(first_dialect, dialect, body, failed.refusal)
            pause = 0.0 if plain != dialect else tries.pause(failed, timer.left())
            if not self._again:
                self._learned.dialect, pause = plain, None
            _log(failed, pause, shown=shown)
            if shown or pause is None:
                raise failed.refusal.error
            dialect = plain
            await self._sleep(pause)

    async def aclose(self) -> None:
        """Closes the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _body(self, request: StepRequest) -> Body:
        body: Body = {"model": self._endpoint.model} if self._endpoint.model else {}
        body |= {"messages": request.messages, "stream": True, "stream_options": {"include_usage": True}}
        if request.max_output is not None:
            body["max_tokens"] = request.max_output
        return body | {"tools": request.tools} if request.tools else body

    async def _try(self, body: Body, timer: StepTimer) -> AsyncGenerator[TextDelta | Answer, None]:
        """One request. Raises `TryFailed`."""
        response = await self._send(body, timer)
        kind = response.headers.get("content-type", "")
        answer = AnswerStream(new_id=self._new_id, event_stream=kind.startswith("text/event-stream"))
        # Closing the bytes closes the response.
        async with aclosing(response.aiter_bytes()) as chunks:
            async with aclosing(_texts(chunks, answer, timer)) as deltas:
                async for delta in deltas:
                    yield delta
            whole = answer.answer()
            # The gateway's word; a gateway that names none served what it was asked for.
            yield replace(whole, model=whole.model or self._endpoint.model or None)
            await _drain(chunks)

    async def _send(self, body: Body, timer: StepTimer) -> "Response":
        """The answer's head; its body is still to be read."""
        client = await self._client()
        from httpx2 import InvalidURL, Response
        from openai import APIConnectionError, APIStatusError, AsyncStream

        timer.restart()
        wait, over = timer.wait()
        try:
            async with asyncio.timeout(wait):
                sent = await client.post(
                    self._endpoint.url,
                    cast_to=Response,
                    content=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"),
                    options={"follow_redirects": False},
                    stream=True,
                    stream_cls=AsyncStream[object],
                )
        except TimeoutError:
            raise TryFailed(Refusal(over), cause="silence", silent=True) from None
        except APIStatusError as error:
            raise self._refused(error.response) from None
        except APIConnectionError as error:
            raise cut(type(error.__cause__ or error).__name__) from None
        except _transport_errors() as error:
            raise cut(type(error).__name__) from None
        except InvalidURL:
            raise TryFailed(Refusal(GatewayUnreadable()), cause="bad address") from None
        return cast("Response", sent)

    def _refused(self, response: "Response") -> TryFailed:
        refusal = refusal_of(response.status_code, response.content)
        _log_page(response.content)
        wait = retry_after(response.headers, now=self._wall())
        return TryFailed(refusal, cause=str(response.status_code), retry_after=wait)

    async def _client(self) -> "AsyncOpenAI":
        """One client an event loop. It is made in a thread, so that streams and heartbeats go on meanwhile."""
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            client = self._clients.setdefault(loop, await asyncio.to_thread(_connect, self._endpoint))
        return client


def _plainer(first: Dialect, dialect: Dialect, body: Body, refusal: Refusal) -> Dialect:
    """What to try next. The limit of the answer has few forms, and each may be tried; of the others one change."""
    full = isinstance(refusal.error, ContextFull)
    other = unlimited(dialect, body, refusal.complaint, full=full)
    if other != dialect or replace(dialect, limit=first.limit) != first:
        return other
    return plainer(dialect, body, refusal.complaint)


async def _texts(
    chunks: AsyncIterator[bytes], answer: AnswerStream, timer: StepTimer
) -> AsyncGenerator[TextDelta, None]:
    """Visible text as it comes, until the answer is whole."""
    silent = True
    while not answer.done and (chunk := await _read(chunks, answer, timer, silent=silent)) is not None:
        if silent:
            _log_page(chunk)
        events, silent = answer.events, False
        for delta in answer.feed(chunk):
            yield delta
        if answer.events > events:
            timer.heard()
    for delta in answer.end():
        yield delta


async def _read(chunks: AsyncIterator[bytes], answer: AnswerStream, timer: StepTimer, *, silent: bool) -> bytes | None:
    """The next bytes; None at the end, and when what is there is a whole answer already."""
    wait, over = timer.wait()
    try:
        async with asyncio.timeout(min(wait, COUNTS_S) if answer.finished else wait):
            return await anext(chunks, None)
    except TimeoutError:
        failed = TryFailed(Refusal(over), cause="silence", silent=silent)
    except _transport_errors() as error:
        failed = cut(type(error).__name__)
    if answer.finished:
        return None
    raise failed


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Reads the end of the body when it is there already, so that the connection can be used again."""
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in chunks:
                pass
    except TimeoutError:
        return
    except _transport_errors():
        return


def _transport_errors() -> tuple[type[Exception], ...]:
    import ssl

    from anyio import EndOfStream
    from httpx2 import RequestError

    return (RequestError, ssl.SSLError, EndOfStream)


def _connect(endpoint: Endpoint) -> "AsyncOpenAI":
    """A client that takes nothing from the environment: no proxies, no `.netrc`, no `OPENAI_*`; but `SSL_CERT_FILE` and
    `SSL_CERT_DIR` in place of the usual roots, by which TLS is verified. Raises `TryFailed` where they cannot be read.
    """
    from httpx2 import Timeout, create_ssl_context
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    for name in ("openai", "httpx2", "httpcore2"):
        # They log addresses, and an address may hold a key.
        logging.getLogger(name).setLevel(logging.WARNING)

    headers = {
        "accept": "text/event-stream, application/json",
        # A compressed stream may be held back until a block is full.
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": "deckhand",
    }

    async def only_ours(request: "Request") -> None:
        key = await asyncio.to_thread(endpoint.api_key)
        for name in set(request.headers) - _HEADERS_OF_HTTP:
            del request.headers[name]
        request.headers.update(headers | ({"authorization": f"Bearer {key}"} if key else {}))

    try:
        roots = create_ssl_context()
    except OSError:
        raise TryFailed(Refusal(GatewayFailed()), cause="SSL_CERT_FILE or SSL_CERT_DIR") from None
    transport = DefaultAsyncHttpxClient(
        trust_env=False,
        verify=roots,
        follow_redirects=False,
        timeout=Timeout(None, connect=CONNECT_S),
        event_hooks={"request": [only_ours]},
    )
    placeholder = "set by the request hook"
    return AsyncOpenAI(api_key=placeholder, base_url=endpoint.url, max_retries=0, http_client=transport)


def _log_page(body: bytes) -> None:
    """A short head of what is a page and no answer; never more, and nothing of an answer."""
    head = body[:_HEAD_BYTES].decode("utf-8", "replace")
    if looks_like_html(head):
        logger.debug("the gateway answered with a page", extra={"head": head})


def _log(failed: TryFailed, pause: float | None, *, shown: bool) -> None:
    fields: dict[str, Any] = {"cause": failed.cause, "code": failed.refusal.error.code, "shown": shown, "pause": pause}
    logger.warning("a try at the gateway failed", extra=fields)
