"""The queue worker: jobs from SQS (or the laptop's queue in the same form), each failing on its own, and the minute
sweep.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from deckhand.agent.chat import ChatGateway
from deckhand.agent.meter import MeteredGateway
from deckhand.domain.errors import (
    DailyAllowanceUsedUp,
    NotAllowed,
    PushUnfinished,
    StorageError,
    TurnRunning,
    UnknownConversation,
)
from deckhand.domain.job import Job
from deckhand.edge.live import EventLoopThread
from deckhand.storage.cards import Cards
from deckhand.storage.conversations import Owner
from deckhand.storage.queue import MAX_TRIES
from deckhand.turns.chat import Chats
from deckhand.turns.context import TurnContext
from deckhand.turns.metering import Metering
from deckhand.turns.sweep import sweep
from deckhand.turns.switched import SwitchedGateway
from deckhand.turns.titles import make_title

logger = Logger(child=True)

FINISH_MARGIN_S = 10.0
ASKING = ("title", "queued_turn", "continued_turn")
"""The kinds of job that ask a model."""
RETRY_S, MAX_RETRY_S = 30.0, 900.0
"""When a push that some device may take later is tried again: four times as late each time, or when its service says;
with the queue's tries that outlasts twenty minutes of a service that is down."""


class DeliverPush(Protocol):
    """`last`: there is no other try. Raises `PushUnfinished` where another one is wanted."""

    def __call__(self, job: Job, *, last: bool) -> None: ...


class JobWorker:
    """Handles both kinds of event. Without a gateway there is nothing that a job could ask: jobs are dropped with a
    log line.
    """

    def __init__(
        self,
        *,
        context: TurnContext,
        chats: Chats | None,
        gateway: ChatGateway | None,
        metering: Metering,
        thread: EventLoopThread,
        deliver_push: DeliverPush,
    ) -> None:
        self._context, self._chats, self._gateway, self._thread = context, chats, gateway, thread
        self._metering, self._deliver_push = metering, deliver_push
        self._kinds: dict[str, Callable[[Job, float | None], None]] = {
            "title": self._title,
            "queued_turn": self._queued_turn,
            "drop_rows": self._drop_rows,
            "notices": self._notices,
            "continued_turn": self._continued_turn,
        }

    def __call__(self, event: Mapping[str, Any], context: Any) -> Any:
        """`{batchItemFailures}` for a batch of the queue, `{closed, woken}` for a tick of the schedule."""
        if "Records" not in event:
            swept = sweep(self._context)
            return {"closed": swept.closed, "woken": swept.woken}
        processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        remaining = getattr(context, "get_remaining_time_in_millis", None)
        left = None if remaining is None else max(1.0, remaining() / 1000 - FINISH_MARGIN_S)
        return process_partial_response(
            event=dict(event),
            record_handler=lambda record: self._handle(record, left),
            processor=processor,
            context=context,
        )

    def _handle(self, record: SQSRecord, left: float | None) -> None:
        job = Job.model_validate_json(record.body)
        if job.kind in ASKING and (self._gateway is None or self._chats is None):
            logger.warning("job dropped: no gateway is configured", kind=job.kind)
            return
        if job.kind == "push":
            self._push(job, record)
        else:
            self._kinds[job.kind](job, left)

    def _drop_rows(self, job: Job, _: float | None) -> None:
        Cards(self._context.store, job.actor.tenant).drop_generation(job.card, job.generation)

    def _push(self, job: Job, record: SQSRecord) -> None:
        tries = int(record.attributes.approximate_receive_count)
        try:
            self._deliver_push(job, last=tries >= MAX_TRIES)
        except PushUnfinished as unfinished:
            wait = min(MAX_RETRY_S, max(RETRY_S * 4 ** (tries - 1), unfinished.wait))
            with suppress(StorageError):
                # Without it the next try is only later.
                self._context.jobs.delay(record.receipt_handle, wait)
            raise

    def _notices(self, job: Job, _: float | None) -> None:
        """Until somebody subscribes, the log is where they are told."""
        for notice in job.notices:
            logger.info(notice.name, **notice.model_dump(exclude={"name"}, exclude_none=True), actor=job.actor.id)

    def _title(self, job: Job, _: float | None) -> None:
        if self._gateway is not None:
            self._thread.submit(self._titled(self._gateway, job)).result()

    async def _titled(self, gateway: ChatGateway, job: Job) -> None:
        """A title counts like any call; without anything left for it the next turn asks again."""
        meter = self._metering.meter(job.actor.principal())
        try:
            principal, now = job.actor.principal(), self._context.now
            metered = MeteredGateway(SwitchedGateway(gateway, self._context.store, principal, now=now), meter)
            await make_title(self._context, metered, _owner(job), job.conversation)
        except DailyAllowanceUsedUp:
            logger.info("no title made: the allowance is used up")
        except NotAllowed as refused:
            logger.info("no title made", code=refused.code)
        finally:
            await meter.close()

    def _queued_turn(self, job: Job, left: float | None) -> None:
        """Nothing to do when another process was quicker: whoever runs now looks at the queue when it ends."""
        if self._chats is None:
            return
        try:
            self._thread.submit(self._chats.run_queued(_owner(job), job.conversation, time_left=left)).result()
        except (TurnRunning, UnknownConversation):
            return

    def _continued_turn(self, job: Job, left: float | None) -> None:
        """Nothing to do when another turn runs: its end looks at what was decided."""
        if self._chats is None:
            return
        with suppress(TurnRunning, UnknownConversation):
            self._thread.submit(self._chats.run_continued(job, time_left=left)).result()


def _owner(job: Job) -> Owner:
    return Owner(job.actor.tenant, job.actor.user)
