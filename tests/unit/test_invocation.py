"""One call between the worker's side and the front's."""

import pytest

from infra.local.answers import Prelude
from infra.local.invocation import BACKLOG_LIMIT_BYTES, Call, Fault, FunctionFaultError, Invocation


@pytest.fixture
def invocation() -> Invocation:
    return Invocation(Call("r", b"{}", 0, "arn"))


async def read(invocation: Invocation) -> bytes:
    return b"".join([piece async for piece in invocation.chunks()])


async def test_what_came_before_it_was_read_is_one_chunk(invocation: Invocation) -> None:
    invocation.feed(b"one")
    invocation.feed(b"two")
    invocation.finish()
    assert [piece async for piece in invocation.chunks()] == [b"onetwo"]


async def test_what_came_before_a_fault_is_still_read(invocation: Invocation) -> None:
    invocation.begin(Prelude(200))
    invocation.feed(b"shown")
    invocation.fail(Fault.DIED)
    pieces = invocation.chunks()
    assert await anext(pieces) == b"shown"
    with pytest.raises(FunctionFaultError):
        await anext(pieces)


async def test_the_first_ending_counts(invocation: Invocation) -> None:
    invocation.fail(Fault.TIMED_OUT)
    invocation.fail(Fault.DIED)
    invocation.feed(b"late")
    with pytest.raises(FunctionFaultError) as failed:
        await read(invocation)
    assert failed.value.fault is Fault.TIMED_OUT


async def test_a_client_that_does_not_read_holds_up_no_run(invocation: Invocation) -> None:
    for _ in range(3):
        invocation.feed(bytes(BACKLOG_LIMIT_BYTES // 2))
    invocation.finish()
    assert invocation.fault is None
    with pytest.raises(FunctionFaultError) as failed:
        await read(invocation)
    assert failed.value.fault is Fault.UNREAD
