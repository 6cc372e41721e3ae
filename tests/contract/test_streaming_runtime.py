"""The runtime client against a Runtime API that keeps every byte."""

import base64
import json
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.raw_runtime_api import WAIT_SECONDS, Post, RawRuntimeApi, runtime

WRAPPER = Path(__file__).resolve().parents[2] / "layers" / "deckhand" / "stream-wrapper"
HANDLER = """
import json, pathlib, time

def wait_for(path):
    path, end = pathlib.Path(path), time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.002)
    assert path.exists()

def pieces(event):
    for piece in event["pieces"]:
        if piece == "RAISE":
            raise ValueError("what the user wrote")
        if piece.startswith("WAIT "):
            wait_for(piece[5:])
        elif piece.startswith("TOUCH "):
            pathlib.Path(piece[6:]).touch()
        elif piece.startswith("BYTES "):
            yield bytes.fromhex(piece[6:])
        else:
            yield piece

def handler(event, context):
    if "result" in event:
        return event["result"]
    if "raises" in event:
        raise RuntimeError("no")
    answer = {"statusCode": 200, "headers": {"Content-Type": "text/event-stream"}, **event.get("answer", {})}
    return {**answer, "body": pieces(event)}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("function")
    (folder / "handler.py").write_text(HANDLER)
    return folder


@pytest.fixture(scope="module")
def streaming_runtime(folder: Path) -> Iterator[RawRuntimeApi]:
    with runtime(folder, RESPONSE_MODE="stream") as api:
        yield api


@pytest.fixture
def streaming(streaming_runtime: RawRuntimeApi) -> RawRuntimeApi:
    streaming_runtime.hang_up_at = None
    return streaming_runtime


@pytest.fixture(scope="module")
def buffering(folder: Path) -> Iterator[RawRuntimeApi]:
    with runtime(folder, RESPONSE_MODE="buffer") as api:
        yield api


def call(api: RawRuntimeApi, **event: Any) -> Post:
    api.give(event)
    return api.next_post().wait()


def wait_until_there(path: Path) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_piece_arrives_before_the_next_is_made(streaming: RawRuntimeApi, tmp_path: Path) -> None:
    streaming.give({"pieces": ["first", f"WAIT {tmp_path / 'go'}", "second"]})
    post = streaming.next_post()
    post.wait_for(b"first")
    assert b"second" not in post.body
    (tmp_path / "go").touch()
    post.wait_for(b"second")


def test_the_prelude_arrives_before_the_first_piece_is_made(streaming: RawRuntimeApi, tmp_path: Path) -> None:
    streaming.give({"pieces": [f"WAIT {tmp_path / 'go'}", "first"]})
    post = streaming.next_post()
    post.wait_for(b"\0" * 8)
    (tmp_path / "go").touch()
    post.wait_for(b"first")


def test_prelude_delimiter_and_pieces_are_chunks_of_their_own(streaming: RawRuntimeApi) -> None:
    prelude, *rest = call(streaming, pieces=["one", "BYTES 00ff", "zwölf"]).chunks()
    assert json.loads(prelude) == {"statusCode": 200, "headers": {"Content-Type": "text/event-stream"}}
    assert rest == [b"\0" * 8, b"one", b"\x00\xff", "zwölf".encode()]


def test_the_request_announces_a_stream_with_trailers(streaming: RawRuntimeApi) -> None:
    post = call(streaming, pieces=["x"])
    announced = {
        "lambda-runtime-function-response-mode": "streaming",
        "content-type": "application/vnd.awslambda.http-integration-response",
        "transfer-encoding": "chunked",
        "trailer": "Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body",
        "connection": "close",
    }
    assert announced.items() <= post.headers.items()
    assert post.body.endswith(b"\r\nx\r\n0\r\n\r\n")
    assert post.path.endswith("/response")


def test_cookies_and_repeated_headers_are_in_the_prelude(streaming: RawRuntimeApi) -> None:
    extra = {"cookies": ["a=1", "b=2"], "multiValueHeaders": {"Set-Cookie": ["c=3", "d=4"], "X-Count": [7]}}
    prelude = json.loads(call(streaming, pieces=[], answer=extra).chunks()[0])
    assert prelude["cookies"] == ["a=1", "b=2"]
    assert prelude["multiValueHeaders"] == {"Set-Cookie": ["c=3", "d=4"], "X-Count": ["7"]}


def test_an_empty_piece_does_not_end_the_body(streaming: RawRuntimeApi) -> None:
    post = call(streaming, pieces=["one", "", "BYTES ", "two"])
    assert post.chunks()[2:] == [b"one", b"two"]


def test_a_refusal_before_the_stream_goes_out_in_the_same_format(streaming: RawRuntimeApi) -> None:
    refusal = {"statusCode": 404, "headers": {"Content-Type": "application/json"}, "body": '{"code": "nope"}'}
    prelude, _, body = call(streaming, result=refusal).chunks()
    assert json.loads(prelude)["statusCode"] == 404
    assert body == b'{"code": "nope"}'


def test_a_base64_body_is_streamed_decoded(streaming: RawRuntimeApi) -> None:
    result = {"statusCode": 200, "body": base64.b64encode(b"\x00\xff").decode(), "isBase64Encoded": True}
    assert call(streaming, result=result).chunks()[2:] == [b"\x00\xff"]


def test_an_answer_without_body_ends_after_the_delimiter(streaming: RawRuntimeApi) -> None:
    assert len(call(streaming, result={"statusCode": 204, "body": ""}).chunks()) == 2


def test_a_handler_that_raises_posts_an_error(streaming: RawRuntimeApi) -> None:
    post = call(streaming, raises=True)
    assert post.path.endswith("/error")
    assert json.loads(post.body)["errorType"] == "RuntimeError"


def test_an_error_inside_the_body_becomes_trailers_after_what_was_made(streaming: RawRuntimeApi) -> None:
    post = call(streaming, pieces=["shown", "RAISE"])
    assert post.chunks()[2:] == [b"shown"]
    trailers = post.trailers()
    assert trailers["lambda-runtime-function-error-type"] == "Function.ValueError"
    assert json.loads(base64.b64decode(trailers["lambda-runtime-function-error-body"]))["errorType"] == (
        "Function.ValueError"
    )


def test_what_the_user_wrote_is_in_neither_trailers_nor_log(streaming: RawRuntimeApi, folder: Path) -> None:
    post = call(streaming, pieces=["RAISE"])
    assert b"what the user wrote" not in base64.b64decode(post.trailers()["lambda-runtime-function-error-body"])
    call(streaming, pieces=[])
    assert "what the user wrote" not in (folder / "log").read_text()


def test_a_call_after_a_broken_body_works(streaming: RawRuntimeApi) -> None:
    call(streaming, pieces=["RAISE"])
    assert call(streaming, pieces=["fine"]).chunks()[2:] == [b"fine"]


def test_the_body_is_drained_to_its_end_when_the_connection_is_lost(streaming: RawRuntimeApi, tmp_path: Path) -> None:
    streaming.hang_up_at = b"first"
    lost, last = tmp_path / "lost", tmp_path / "last"
    rest = [f"piece {number}" for number in range(100)]
    streaming.give({"pieces": ["first", f"WAIT {lost}", *rest, f"TOUCH {last}"]})
    post = streaming.next_post().wait()
    lost.touch()
    wait_until_there(last)
    assert b"piece" not in post.body


def test_a_call_after_a_lost_connection_works(streaming: RawRuntimeApi) -> None:
    streaming.hang_up_at = b"first"
    call(streaming, pieces=["first", *["more"] * 100])
    streaming.hang_up_at = None
    assert call(streaming, pieces=["fine"]).chunks()[2:] == [b"fine"]


def test_a_result_that_is_no_http_answer_stays_json(streaming: RawRuntimeApi) -> None:
    post = call(streaming, result={"batchItemFailures": []})
    assert post.headers["content-type"] == "application/json"
    assert json.loads(post.body) == {"batchItemFailures": []}


def test_the_invocation_id_goes_back_when_there_is_one(streaming: RawRuntimeApi) -> None:
    streaming.give({"pieces": ["x"]}, invocation_id="inv-1")
    assert streaming.next_post().wait().headers["lambda-runtime-invocation-id"] == "inv-1"


def test_no_invocation_id_is_made_up(streaming: RawRuntimeApi) -> None:
    assert "lambda-runtime-invocation-id" not in call(streaming, pieces=["x"]).headers


def test_a_buffered_answer_is_joined(buffering: RawRuntimeApi) -> None:
    post = call(buffering, pieces=["one ", "", "zwölf"])
    assert post.headers["content-type"] == "application/json"
    answer = json.loads(post.body)
    assert (answer["statusCode"], answer["body"], answer["isBase64Encoded"]) == (200, "one zwölf", False)


def test_a_buffered_answer_that_is_no_text_is_base64(buffering: RawRuntimeApi) -> None:
    answer = json.loads(call(buffering, pieces=["BYTES 00ff"]).body)
    assert base64.b64decode(answer["body"]) == b"\x00\xff"
    assert answer["isBase64Encoded"] is True


def test_an_answer_that_the_handler_joined_stays_as_it_is(buffering: RawRuntimeApi) -> None:
    result = {"statusCode": 200, "body": "AP8=", "isBase64Encoded": True}
    assert json.loads(call(buffering, result=result).body) == result


def test_a_buffered_body_that_raises_is_an_error_of_the_call(buffering: RawRuntimeApi) -> None:
    post = call(buffering, pieces=["lost", "RAISE"])
    assert post.path.endswith("/error")


def test_results_of_schedules_pass_in_buffered_mode(buffering: RawRuntimeApi) -> None:
    assert json.loads(call(buffering, result={"fired": 3}).body) == {"fired": 3}


def test_sam_local_is_never_streamed_to(folder: Path) -> None:
    with runtime(folder, RESPONSE_MODE="stream", AWS_SAM_LOCAL="true") as api:
        assert json.loads(call(api, pieces=["joined"]).body)["body"] == "joined"


def test_the_exec_wrapper_starts_the_runtime(folder: Path) -> None:
    assert WRAPPER.stat().st_mode & stat.S_IXUSR
    command = [str(WRAPPER), sys.executable, "/var/runtime/bootstrap.py"]
    with runtime(folder, command=command, RESPONSE_MODE="stream") as api:
        assert call(api, pieces=["wrapped"]).chunks()[2:] == [b"wrapped"]


def test_a_handler_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    with runtime(tmp_path, RESPONSE_MODE="stream") as api:
        post = api.next_post().wait()
    assert post.path == "/2018-06-01/runtime/init/error"
    assert json.loads(post.body)["errorType"] == "Runtime.ImportModuleError"
