"""The laptop stack as a process, with a small function in place of Deckhand's own."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

WAIT_SECONDS = 60
"""Ends a test that hangs; no test waits that long."""

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Resources:
  Echo:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: echo/
      Handler: handler.handler
      Timeout: 20
      Events:
        Stream: {Type: Api, Properties: {Path: "/stream/{id}", Method: post}}
        Read: {Type: Api, Properties: {Path: "/stream/{id}", Method: get}}
        Files: {Type: Api, Properties: {Path: "/files/{path+}", Method: any}}
  Brief:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: echo/
      Handler: handler.handler
      Timeout: 1
      Events:
        Stream: {Type: Api, Properties: {Path: "/brief/{id}", Method: post}}
"""
HANDLER = """
import json, os, pathlib, time

def body(query):
    yield "first"
    while "until" in query and not pathlib.Path(query["until"]).exists():
        time.sleep(0.002)
    if "raises" in query:
        raise ValueError
    yield "last"
    if "done" in query:
        pathlib.Path(query["done"]).write_text(str(os.getpid()))

def handler(event, context):
    query = event["queryStringParameters"] or {}
    if "die" in query:
        os._exit(1)
    while "before" in query and not pathlib.Path(query["before"]).exists():
        time.sleep(0.002)
    if event["resource"].startswith("/stream") and event["httpMethod"] == "GET":
        told = {"pid": os.getpid(), "environment": dict(os.environ), "event": event}
        return {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": json.dumps(told)}
    if event["resource"].startswith("/files"):
        return {"statusCode": 200, "body": event["pathParameters"]["path"]}
    headers = {"Content-Type": "text/event-stream"}
    return {"statusCode": 200, "headers": headers, "multiValueHeaders": {"Set-Cookie": ["a=1", "b=2"]},
            "body": body(query)}
"""


@dataclass
class Stack:
    process: subprocess.Popen[str]
    data: Path
    port: int
    token: str

    @contextmanager
    def open(self, method: str, path: str, body: bytes | None = None) -> Iterator[http.client.HTTPResponse]:
        """An answer whose body is still to be read; the connection ends with the block."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        with closing(connection):
            connection.request(method, path, body)
            with connection.getresponse() as answer:
                yield answer

    def read(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
        with self.open(method, path, body) as answer:
            return answer.status, answer.read().decode()

    def json(self, path: str) -> Any:
        return json.loads(self.read("GET", path)[1])


def start(folder: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    (folder / "echo").mkdir(exist_ok=True)
    (folder / "echo" / "handler.py").write_text(HANDLER)
    (folder / "template.yaml").write_text(TEMPLATE)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "infra.local.stack", "--template", str(folder / "template.yaml")),
            *("--data", str(folder / "data"), *(options or ("--port", "0"))),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ready(process: subprocess.Popen[str], folder: Path) -> Stack:
    assert process.stdout is not None
    line = process.stdout.readline()
    told = re.fullmatch(r"deckhand ready: http://127\.0\.0\.1:(\d+) token: (\S+)\n", line)
    assert told, line
    return Stack(process, folder / "data", int(told[1]), told[2])


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=WAIT_SECONDS)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    process = start(folder)
    try:
        yield ready(process, folder)
    finally:
        end(process)


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    process = start(tmp_path)
    try:
        yield ready(process, tmp_path)
    finally:
        end(process)


def until(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.01)


def alive(process: int) -> bool:
    """Whether it runs; a zombie that its new parent has not collected yet does not."""
    try:
        os.kill(process, 0)
        status = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    except ProcessLookupError:
        return False
    return status.stdout.strip() not in ("", "Z", "Zs")


def test_a_streams_first_piece_comes_before_its_last_is_made(stack: Stack, tmp_path: Path) -> None:
    with stack.open("POST", f"/stream/1?until={tmp_path / 'go'}") as answer:
        assert answer.read(5) == b"first"
        (tmp_path / "go").touch()
        assert answer.read() == b"last"


def test_every_cookie_is_kept(stack: Stack) -> None:
    with stack.open("POST", "/stream/1") as answer:
        assert answer.headers.get_all("set-cookie") == ["a=1", "b=2"]
        answer.read()


def test_the_function_gets_a_proxy_event(stack: Stack) -> None:
    event = stack.json("/stream/a%20b?x=1&x=2")["event"]
    assert (event["resource"], event["pathParameters"]) == ("/stream/{id}", {"id": "a b"})
    assert event["multiValueQueryStringParameters"] == {"x": ["1", "2"]}


def test_a_greedy_parameter_holds_the_rest_of_the_path(stack: Stack) -> None:
    assert stack.read("PUT", "/files/a/b.txt") == (200, "a/b.txt")


def test_an_unknown_path_is_not_found(stack: Stack) -> None:
    status, body = stack.read("GET", "/nowhere")
    assert (status, json.loads(body)["code"]) == (404, "not_found")


def test_a_trailing_slash_is_another_path(stack: Stack) -> None:
    assert stack.read("GET", "/stream/1/")[0] == 404


@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS"])
def test_a_wrong_method_is_told_the_right_ones(stack: Stack, method: str) -> None:
    with stack.open(method, "/stream/1") as answer:
        assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
        assert method == "HEAD" or json.loads(answer.read())["code"] == "method_not_allowed"


def test_a_worker_that_dies_gives_502_and_is_replaced(stack: Stack) -> None:
    status, body = stack.read("GET", "/stream/1?die=1")
    assert (status, json.loads(body)["code"]) == (502, "function_failed")
    assert stack.read("GET", "/stream/1")[0] == 200


def test_a_function_out_of_time_before_its_answer_gives_504(stack: Stack, tmp_path: Path) -> None:
    status, body = stack.read("POST", f"/brief/1?before={tmp_path / 'never'}")
    assert (status, json.loads(body)["code"]) == (504, "function_timeout")


@pytest.mark.parametrize("path", ["/brief/1?until=/nowhere", "/stream/1?raises=1"], ids=["out of time", "raises"])
def test_a_stream_that_broke_off_has_no_proper_end(stack: Stack, path: str) -> None:
    with stack.open("POST", path) as answer:
        assert answer.read(5) == b"first"
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def test_a_client_that_leaves_does_not_stop_the_run(stack: Stack, tmp_path: Path) -> None:
    done = tmp_path / "done"
    with stack.open("POST", f"/stream/1?until={tmp_path / 'go'}&done={done}") as answer:
        assert answer.read(5) == b"first"
    (tmp_path / "go").touch()
    until(done.exists)


def test_a_body_over_the_limit_is_refused(stack: Stack) -> None:
    status, body = stack.read("POST", "/stream/1", bytes(10 * 1024 * 1024 + 1))
    assert (status, json.loads(body)["code"]) == (413, "body_too_large")


def test_the_functions_use_the_demo_while_no_gateway_is_set(stack: Stack) -> None:
    environment = stack.json("/stream/1")["environment"]
    assert environment["DECKHAND_DEMO"] == "1"
    models = environment["CHAT_ENDPOINT_URL"].replace("/chat/completions", "/models")
    host, _, path = models.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=WAIT_SECONDS)
    connection.request("GET", f"/{path}")
    assert json.loads(connection.getresponse().read())["data"][0]["id"] == "demo"
    connection.close()


def test_the_printed_token_is_kept_in_the_folder_and_in_no_functions_environment(stack: Stack) -> None:
    assert stack.token not in str(stack.json("/stream/1")["environment"])
    assert (stack.data / "token").read_text().strip() == stack.token


def test_the_token_is_in_no_log(stack: Stack) -> None:
    stack.read("GET", "/stream/1?die=1")
    assert all(stack.token not in log.read_text() for log in (stack.data / "logs").iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "Ctrl-C"])
def test_a_signal_lets_an_open_stream_come_to_its_end(own_stack: Stack, tmp_path: Path, number: signal.Signals) -> None:
    with own_stack.open("POST", f"/stream/1?until={tmp_path / 'go'}&done={tmp_path / 'done'}") as answer:
        assert answer.read(5) == b"first"
        own_stack.process.send_signal(number)
        until(lambda: not _accepts(own_stack.port))
        (tmp_path / "go").touch()
        assert answer.read() == b"last"
    assert own_stack.process.wait(WAIT_SECONDS) == 0


def test_a_clean_end_leaves_no_complaint_in_the_log(own_stack: Stack) -> None:
    own_stack.read("GET", "/stream/1")
    own_stack.process.terminate()
    assert own_stack.process.wait(WAIT_SECONDS) == 0
    lines = (own_stack.data / "logs" / "front.log").read_text().splitlines()
    assert [line for line in lines if json.loads(line)["level"] != "INFO"] == []


def test_a_second_signal_ends_open_streams_at_once(own_stack: Stack, tmp_path: Path) -> None:
    with own_stack.open("POST", f"/stream/1?until={tmp_path / 'never'}") as answer:
        assert answer.read(5) == b"first"
        own_stack.process.send_signal(signal.SIGINT)
        until(lambda: not _accepts(own_stack.port))
        own_stack.process.send_signal(signal.SIGINT)
        assert own_stack.process.wait(WAIT_SECONDS) == 0


def test_no_process_is_left_after_a_kill(own_stack: Stack, tmp_path: Path) -> None:
    worker = own_stack.json("/stream/1")["pid"]
    zygote = int(subprocess.check_output(["ps", "-o", "ppid=", "-p", str(worker)], text=True))
    with own_stack.open("POST", f"/stream/1?until={tmp_path / 'never'}") as answer:
        assert answer.read(5) == b"first"
        own_stack.process.kill()
        until(lambda: not alive(zygote) and not alive(worker))


def test_a_port_in_use_is_named_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(tmp_path, "--port", str(port))
        output, errors = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, output) == (1, "")
    assert errors == f"deckhand: port {port} is in use; choose another with --port\n"


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
