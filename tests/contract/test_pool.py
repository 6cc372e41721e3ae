"""A pool of real worker processes with a small handler."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.local.crew import Size
from infra.local.invocation import Fault, FunctionFaultError, Invocation
from infra.local.pool import Pool
from infra.local.spawner import Program, StartError
from infra.local.template import Function

HANDLER = """
import json, os, pathlib, time

def handler(event, context):
    if "die" in event:
        os._exit(3)
    if "started" in event:
        pathlib.Path(event["started"]).touch()
    while "until" in event and not pathlib.Path(event["until"]).exists():
        time.sleep(0.002)
    body = {"pid": os.getpid(), "parent": os.getppid(), "said": event.get("say"),
            "left": context.get_remaining_time_in_millis(), "variable": os.environ.get("VARIABLE")}
    return {"statusCode": 200, "body": json.dumps(body)}
"""


@asynccontextmanager
async def running_pool(
    tmp_path: Path, size: Size | None = None, *, time_limit: float = 20.0, source: str = HANDLER
) -> AsyncIterator[Pool]:
    code = tmp_path / "function"
    code.mkdir()
    (code / "handler.py").write_text(source)
    function = Function("Echo", "handler.handler", code, time_limit)
    environment = {"PATH": os.environ["PATH"], "LAMBDA_TASK_ROOT": str(code), "VARIABLE": "v"}
    with (tmp_path / "log").open("ab") as log:
        pool = Pool(Program(function, environment, log.fileno()), size or Size())
        try:
            async with asyncio.timeout(60):
                await pool.start()
                yield pool
        finally:
            await pool.close()


def begin(pool: Pool, *, long: bool = False, **event: Any) -> Invocation:
    return pool.invoke(json.dumps(event).encode(), long=long)


async def answer(invocation: Invocation) -> dict[str, Any]:
    await invocation.prelude()
    body: dict[str, Any] = json.loads(b"".join([piece async for piece in invocation.chunks()]))
    return body


async def call(pool: Pool, **event: Any) -> dict[str, Any]:
    return await answer(begin(pool, **event))


async def until(happens: Callable[[], bool]) -> None:
    while not happens():  # noqa: ASYNC110 (files and processes have no events)
        await asyncio.sleep(0.005)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_call_is_answered_with_the_functions_environment_and_time(tmp_path: Path) -> None:
    async with running_pool(tmp_path) as pool:
        body = await call(pool, say="hello")
    assert (body["said"], body["variable"]) == ("hello", "v")
    assert 0 < body["left"] <= 20_000


async def test_calls_one_after_the_other_share_a_worker(tmp_path: Path) -> None:
    async with running_pool(tmp_path) as pool:
        assert (await call(pool))["pid"] == (await call(pool))["pid"]


async def test_parallel_calls_run_in_processes_of_their_own(tmp_path: Path) -> None:
    async with running_pool(tmp_path) as pool:
        # None can end before all have started, so the pool must have grown.
        calls = [begin(pool, started=str(tmp_path / f"s{n}"), until=str(tmp_path / "go"), say=n) for n in range(6)]
        await until(lambda: len(list(tmp_path.glob("s?"))) == 6)
        (tmp_path / "go").touch()
        bodies = [await answer(running) for running in calls]
    assert len({body["pid"] for body in bodies}) == 6


async def test_answers_of_parallel_calls_are_not_mixed(tmp_path: Path) -> None:
    async with running_pool(tmp_path, Size(limit=4)) as pool:
        bodies = await asyncio.gather(*(call(pool, say=number) for number in range(40)))
    assert [body["said"] for body in bodies] == list(range(40))


async def test_a_worker_that_dies_at_work_fails_its_call(tmp_path: Path) -> None:
    async with running_pool(tmp_path) as pool:
        with pytest.raises(FunctionFaultError) as failed:
            await call(pool, die=True)
    assert failed.value.fault is Fault.DIED


async def test_a_worker_that_died_is_replaced(tmp_path: Path) -> None:
    async with running_pool(tmp_path, Size(limit=1)) as pool:
        await begin(pool, die=True).wait()
        assert (await call(pool, say="again"))["said"] == "again"


async def test_a_worker_that_dies_while_it_waits_costs_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_pool(tmp_path, Size(limit=1)) as pool:
        first = (await call(pool))["pid"]
        await until(lambda: pool.crew.idle == 1)
        os.kill(first, signal.SIGKILL)
        await until(lambda: "A worker" in caplog.text)
        assert (await call(pool))["pid"] != first


async def test_a_zygote_that_dies_is_started_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_pool(tmp_path, Size(limit=1)) as pool:
        zygote = (await call(pool))["parent"]
        os.kill(zygote, signal.SIGKILL)
        await until(lambda: "A worker" in caplog.text)
        assert (await call(pool))["parent"] != zygote


async def test_a_function_out_of_time_is_killed(tmp_path: Path) -> None:
    async with running_pool(tmp_path, Size(limit=1), time_limit=1.5) as pool:
        first = (await call(pool))["pid"]
        with pytest.raises(FunctionFaultError) as failed:
            await call(pool, until=str(tmp_path / "never"))
        assert failed.value.fault is Fault.TIMED_OUT
        await until(lambda: not alive(first))
        assert (await call(pool))["pid"] != first


async def test_a_short_call_does_not_wait_behind_long_ones(tmp_path: Path) -> None:
    async with running_pool(tmp_path, Size(limit=1, reserved=1)) as pool:
        go = str(tmp_path / "go")
        running = [begin(pool, long=True, until=go, started=str(tmp_path / f"s{n}")) for n in range(2)]
        await until(lambda: (tmp_path / "s0").exists())
        assert (await call(pool, say="stop"))["said"] == "stop"
        assert not (tmp_path / "s1").exists()
        (tmp_path / "go").touch()
        assert len([await answer(one) for one in running]) == 2


async def test_a_call_that_finds_every_worker_taken_is_told_so(tmp_path: Path) -> None:
    async with running_pool(tmp_path, Size(limit=1, wait_seconds=0.05)) as pool:
        running = begin(pool, until=str(tmp_path / "go"), started=str(tmp_path / "s"))
        await until(lambda: (tmp_path / "s").exists())
        with pytest.raises(FunctionFaultError) as refused:
            await call(pool)
        assert refused.value.fault is Fault.BUSY
        (tmp_path / "go").touch()
        await answer(running)


async def test_an_answer_that_nobody_reads_comes_to_its_end(tmp_path: Path) -> None:
    async with running_pool(tmp_path) as pool:
        invocation = begin(pool, say="unread")
        await invocation.wait()
        assert invocation.fault is None


async def test_idle_workers_go_until_the_floor_is_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_pool(tmp_path, Size(limit=4, idle_seconds=0.1)) as pool:
        calls = [begin(pool, started=str(tmp_path / f"s{n}"), until=str(tmp_path / "go")) for n in range(4)]
        await until(lambda: len(list(tmp_path.glob("s?"))) == 4)
        (tmp_path / "go").touch()
        for running in calls:
            await running.wait()
        await until(lambda: len(pool.crew) == 1)
        assert (await call(pool, say="left"))["said"] == "left"
    assert caplog.text == "", "nobody is warned of what was meant"


async def test_closing_ends_every_process_and_call(tmp_path: Path) -> None:
    async with running_pool(tmp_path) as pool:
        process = (await call(pool))["pid"]
        running = begin(pool, until=str(tmp_path / "never"), started=str(tmp_path / "s"))
        await until(lambda: (tmp_path / "s").exists())
        await pool.close()
        assert running.fault is Fault.DIED
        assert not alive(process)


async def test_a_handler_that_cannot_be_loaded_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"^Echo cannot be started: ValueError: CHAT_MODEL is wrong$"):
        async with running_pool(tmp_path, source="raise ValueError('CHAT_MODEL is wrong')"):
            pass


async def test_a_missing_handler_function_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="Handler 'handler' missing"):
        async with running_pool(tmp_path, source="x = 1"):
            pass
