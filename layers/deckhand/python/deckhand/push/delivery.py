"""The job that pushes what is due for one person in one minute to all their devices."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from deckhand.domain.errors import PushUnfinished, UnknownManifest
from deckhand.domain.job import Job
from deckhand.domain.push_message import Notice, message, payload, shorter, topic
from deckhand.domain.reminders import LATE_S, LATEST_S, Person, Status, fate, items_of, switched_off
from deckhand.domain.subscription import Subscription
from deckhand.domain.times import epoch, zone_or
from deckhand.push.outcome import Outcome
from deckhand.reminders.open_plans import OpenPlans
from deckhand.storage.cards import Cards
from deckhand.storage.people import People
from deckhand.storage.port import ItemStore
from deckhand.storage.push_claims import Claim, PushClaims, Settled
from deckhand.storage.reminders import Fires, Reminders, UserReminders
from deckhand.storage.subscriptions import StoredSubscription, Subscriptions

SIDE_BY_SIDE = 8


class Send(Protocol):
    def __call__(self, subscription: Subscription, payload: bytes, *, topic: str) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """`default_zone`: that of people who have not said theirs. `origin`: the web app's, which a notification opens."""

    store: ItemStore
    send: Send
    now: Callable[[], float]
    new_id: Callable[[], str]
    default_zone: ZoneInfo
    origin: str = ""

    def __call__(self, job: Job, *, last: bool) -> None:
        """Sends to each device once, however often the job comes. `last`: the queue gives no other try.

        Raises `PushUnfinished` while a device is left that may take it later; the others have theirs.
        """
        if self.now() - epoch(job.due) > LATEST_S:
            self._record(job, job.reminders, "late")
            return
        notices = self._notices(job)
        if not notices:
            return
        devices = Subscriptions(self.store, job.actor.tenant).all(job.actor.user)
        outcomes = self._send_all(job, notices, devices)
        left = [outcome for outcome in outcomes if outcome.state == "later"]
        status = _status(outcomes)
        if status is not None or last:
            self._record(job, [one.reminder for one in notices], status or "failed")
        if left and not last:
            raise PushUnfinished(wait=max((outcome.wait or 0.0 for outcome in left), default=0.0))

    def _notices(self, job: Job) -> list[Notice]:
        """Of the reminders that are still there, and still wanted; a plan with nothing left to do needs none."""
        tenant, user = job.actor.tenant, job.actor.user
        cards, kept = Cards(self.store, tenant), Reminders(self.store, tenant).of_user(user)
        person = People(self.store, tenant).find(user).person
        plans, day, found = OpenPlans(cards), date.fromisoformat(job.day or job.due[:10]), []
        for reminder in job.reminders:
            item = _item(cards, reminder, asked=job.asked)
            if item is None or not (job.asked or self._wanted(job, reminder, item, person, kept)):
                continue
            left = plans.left(item["trigger"], day)
            if left is not None and not left and not job.asked:
                continue
            found.append(Notice.of(reminder, item, kept.choice(reminder).privacy, left))
        return found

    def _wanted(self, job: Job, reminder: str, item: Mapping[str, Any], person: Person, kept: UserReminders) -> bool:
        """A push may be on its way for hours, and people change their minds: what they want now counts. What another
        try of it became is not written over.
        """
        zone = self.default_zone if person.zone is None else zone_or(person.zone, self.default_zone)
        on, now, due = item.get("default", "on") == "on", self.now(), epoch(job.due)
        end = fate(person, kept.choice(reminder), zone, default_on=on, missed_by=now - due, now=now)
        if end == "push":
            return True
        known = kept.fires.get(reminder)
        if end != "off" and (known is None or known.at != due):
            self._record(job, [reminder], end)
        return False

    def _send_all(self, job: Job, notices: Sequence[Notice], devices: Sequence[StoredSubscription]) -> list[Outcome]:
        """Side by side: a device that does not answer holds up no other."""
        tag = topic(job.actor.user, [one.reminder for one in notices])
        late = job.late or (not job.asked and self.now() - epoch(job.due) >= LATE_S)
        content = message(notices, tag=tag, due=job.due, late=late, origin=self.origin)
        claims = PushClaims(self.store, job.actor.tenant, job.actor.user, fire=job.fire or f"{job.due}#{tag}")
        one = partial(self._send_claimed, job, claims, content, tag)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            return list(threads.map(one, devices))

    def _send_claimed(
        self, job: Job, claims: PushClaims, content: dict[str, object], tag: str, device: StoredSubscription
    ) -> Outcome:
        claim = claims.take(device.subscription.id, now=self.now(), token=self.new_id())
        if claim is None:
            return Outcome("later")
        if not isinstance(claim, Claim):
            return Outcome(claim)
        outcome = self.send(device.subscription, payload(content), topic=tag)
        if outcome.state == "too_large":
            outcome = self.send(device.subscription, shorter(content), topic=tag)
        if outcome.state == "later":
            claims.give_back(claim, now=self.now(), token=self.new_id())
            return outcome
        settled: Settled = "failed" if outcome.state == "too_large" else outcome.state
        if settled == "gone":
            Subscriptions(self.store, job.actor.tenant).drop_dead(job.actor.user, device, token=self.new_id())
        claims.settle(claim, settled, now=self.now(), token=self.new_id())
        return Outcome(settled)

    def _record(self, job: Job, reminders: Sequence[str], status: Status) -> None:
        for reminder in reminders:
            Fires(self.store).record(job.actor.tenant, job.actor.user, reminder, epoch(job.due), status)


def _item(cards: Cards, reminder: str, *, asked: bool) -> dict[str, Any] | None:
    """None where it is gone, or its card is switched off; a push that was `asked` for comes all the same."""
    card, _, name = reminder.partition("#")
    try:
        manifest = cards.find(card).manifest
    except UnknownManifest:
        return None
    items = [] if switched_off(manifest) and not asked else items_of(manifest)
    return next((item for item in items if item["id"] == name), None)


def _status(outcomes: Sequence[Outcome]) -> Status | None:
    """How the reminder fired; None while that is open."""
    states = {outcome.state for outcome in outcomes}
    if "sent" in states:
        return "sent"
    if states <= {"gone"}:
        return "no_device"
    return None if "later" in states else "failed"
