"""Whatever devices answer, and however often the job comes: whoever took the push gets no other."""

from collections import Counter
from contextlib import closing, suppress
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from deckhand.domain.errors import PushUnfinished
from deckhand.domain.reminders import Status
from deckhand.domain.subscription import Subscription
from deckhand.push.delivery import Delivery
from deckhand.push.outcome import Outcome, State
from deckhand.reminders.claim import push_job
from deckhand.storage.queue import MAX_TRIES
from deckhand.storage.reminders import Reminders
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.subscriptions import Subscriptions
from tests.deck import Deck
from tests.fakes import Ids
from tests.stores import Clock, new_token

REMINDER = {
    "id": "am",
    "label": "Am",
    "title": "Weigh in",
    "body": "Now",
    "trigger": {"type": "daily", "time": "08:00"},
}
ANSWERS = st.lists(st.sampled_from(["later", "too_large", "failed", "gone"]), max_size=MAX_TRIES + 2)


class Devices:
    """Each answers as its script says, then takes whatever comes."""

    def __init__(self, scripts: list[list[State]]) -> None:
        self._left = {f"https://push.test/{number}": list(script) for number, script in enumerate(scripts)}
        self.answered: dict[str, list[State]] = {endpoint: [] for endpoint in self._left}

    def __call__(self, subscription: Subscription, payload: bytes, *, topic: str) -> Outcome:
        script = self._left[subscription.endpoint]
        state: State = script.pop(0) if script else "sent"
        self.answered[subscription.endpoint].append(state)
        return Outcome(state)


@settings(max_examples=40)
@given(st.lists(ANSWERS, min_size=1, max_size=4), st.lists(st.integers(0, 2), min_size=MAX_TRIES, max_size=MAX_TRIES))
def test_whoever_took_a_push_gets_no_other(scripts: list[list[State]], repeats: list[int]) -> None:
    clock, devices = Clock(), Devices(scripts)
    with closing(SqliteStore(":memory:", now=clock)) as store:
        Deck(Path("/nonexistent"), store).create(notifications={"items": [REMINDER]})
        for endpoint in devices.answered:
            one = Subscription(endpoint=endpoint, p256dh="p", auth="a", created_at="c", seen_at="s")
            Subscriptions(store, "main").put("ann", one, token=new_token())
        delivery = Delivery(store=store, send=devices, now=clock, new_id=Ids(), default_zone=ZoneInfo("UTC"))
        job = push_job("main", "ann", ["weight#am"], at=clock(), day=date(2026, 4, 20), fire="f1")
        for tries, more in enumerate(repeats, start=1):
            # The queue may hand out the same try more than once.
            for _ in range(1 + more):
                with suppress(PushUnfinished):
                    delivery(job, last=tries == MAX_TRIES)
        told = Reminders(store, "main").of_user("ann").fires["weight#am"].status
        left = {stored.subscription.endpoint for stored in Subscriptions(store, "main").all("ann")}
    for endpoint, states in devices.answered.items():
        ends = Counter(states)
        assert ends["sent"] + ends["gone"] + ends["failed"] <= 1, "nothing comes after an end"
        assert (endpoint in left) == (ends["gone"] == 0)
    assert told == expected([states[-1] for states in devices.answered.values()])


def expected(ends: list[State]) -> Status:
    if "sent" in ends:
        return "sent"
    return "no_device" if set(ends) == {"gone"} else "failed"
