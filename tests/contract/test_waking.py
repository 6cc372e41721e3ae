"""The one start within a cooldown, on the engines that processes share (checklist 002-21)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from deckhand.agent.chat import ChatGateway
from deckhand.agent.wake import PodStatus, WakeFailed
from deckhand.domain.errors import StorageUnavailable
from deckhand.turns.context import TurnContext
from deckhand.turns.waking import PendingWake, Waking
from tests.fakes import FakeGateway, FakeQueue
from tests.stores import Shelf, new_token

RACERS = 8
COOLDOWN_S = 60

pytestmark = pytest.mark.parametrize("shelf", ["sqlite-file", "ministack"], indirect=True)


@dataclass
class FakePod:
    """A `Wakeable` that stays asleep."""

    starts: int = 0
    failure: WakeFailed | None = None
    pod: str = "qwen"

    def status(self) -> PodStatus:
        return PodStatus("stopped")

    def start(self) -> None:
        self.starts += 1
        if self.failure is not None:
            raise self.failure


class Process:
    """One of several that share a store and a pod."""

    def __init__(self, shelf: Shelf, pod: FakePod) -> None:
        self.gateway: ChatGateway = FakeGateway()
        context = TurnContext.on(shelf.store, now=shelf.clock, new_id=new_token, jobs=FakeQueue())
        self.waking = Waking(
            context,
            pod,
            cooldown_s=COOLDOWN_S,
            endpoint="https://models.test/v1",
            pinned=lambda _: self.gateway,
            has_key=lambda: True,
        )

    def waits(self, tenant: str) -> bool:
        """Whether a `wait` is told that the pod is on its way."""
        try:
            return self.waking.check(tenant, "wait") == PendingWake("qwen")
        except WakeFailed:
            return False


@pytest.fixture
def tenant() -> str:
    return f"tenant-{new_token()}"


def test_002_21_of_many_at_once_one_starts_the_pod_and_all_wait_for_it(shelf: Shelf, tenant: str) -> None:
    pod, start = FakePod(), threading.Barrier(RACERS)

    def racer(_: int) -> bool:
        process = Process(shelf, pod)
        start.wait(timeout=30)
        return process.waits(tenant)

    with ThreadPoolExecutor(RACERS) as pool:
        assert all(pool.map(racer, range(RACERS)))
    assert pod.starts == 1


def test_002_21_the_cooldown_ends_to_the_second(shelf: Shelf, tenant: str) -> None:
    pod = FakePod()
    for passed, starts in ((0, 1), (COOLDOWN_S - 1, 1), (1, 2), (1, 2)):
        shelf.clock.time += passed
        assert Process(shelf, pod).waits(tenant)
        assert pod.starts == starts


def test_002_21_each_tenant_has_a_cooldown_of_its_own(shelf: Shelf, tenant: str) -> None:
    pod = FakePod()
    assert Process(shelf, pod).waits(tenant)
    assert Process(shelf, pod).waits(f"{tenant}-other")
    assert pod.starts == 2


def test_002_22_a_start_that_failed_is_known_to_every_process_until_the_cooldown_ends(
    shelf: Shelf, tenant: str
) -> None:
    pod = FakePod(failure=WakeFailed("500"))
    assert [Process(shelf, pod).waits(tenant) for _ in range(3)] == [False] * 3
    assert pod.starts == 1
    pod.failure = None
    shelf.clock.time += COOLDOWN_S
    assert Process(shelf, pod).waits(tenant)


def test_a_store_that_cannot_remember_a_start_makes_none(
    shelf: Shelf, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object, **__: object) -> None:
        raise StorageUnavailable()

    pod = FakePod()
    monkeypatch.setattr(shelf.store, "write", unavailable)
    with pytest.raises(StorageUnavailable):
        Process(shelf, pod).waking.check(tenant, "wait")
    assert pod.starts == 0
