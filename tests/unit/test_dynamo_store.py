"""How the DynamoDB store meets faults that no local engine makes, with a scripted client."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from deckhand.domain.errors import ConditionFailed, ItemTooLarge, StorageError, StorageUnavailable
from deckhand.storage.attributes import to_attributes
from deckhand.storage.dynamodb import TRIES, DynamoStore
from deckhand.storage.port import ABSENT, EXISTS, TABLES, Delete, Item, Key, Op, Put, VersionIs
from tests.stores import Clock

ITEM = Item("deck", "p", "a", '"mine"', version=2)
OTHERS = Item("deck", "p", "a", '"theirs"', version=5)
CONDITION = "ConditionalCheckFailed"
UPSTREAM = "arn:aws:dynamodb:secret detail"


class ScriptedClient:
    """Answers each call with the next reply; a reply that is an exception is raised. Keeps the requests."""

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**request: Any) -> Any:
            self.requests.append((operation, request))
            assert self.replies, f"unexpected {operation}"
            reply = self.replies.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return reply

        return call


class Scene:
    def __init__(self) -> None:
        self.client = ScriptedClient()
        self.clock = Clock()
        self.pauses: list[float] = []
        self.random = 1.0
        self.store = DynamoStore(
            self.client,  # type: ignore[arg-type]
            {table: f"real-{table}" for table in TABLES},
            now=self.clock,
            sleep=self.pauses.append,
            random=lambda: self.random,
        )

    def replies(self, *replies: Any) -> None:
        self.client.replies.extend(replies)

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.client.requests]

    def client_tokens(self) -> list[str]:
        return [request["ClientRequestToken"] for _, request in self.client.requests]


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    assert not scene.client.replies, "unused replies"


def error(code: str, status: int = 400, **fields: Any) -> ClientError:
    answer = {"Error": {"Code": code, "Message": UPSTREAM}, "ResponseMetadata": {"HTTPStatusCode": status}, **fields}
    return ClientError(answer, "Call")  # type: ignore[arg-type]


def cancelled(*reasons: str | None, items: dict[int, dict[str, Any]] | None = None) -> ClientError:
    listed = [
        {"Code": code or "None", **({"Item": items[index]} if items and index in items else {})}
        for index, code in enumerate(reasons)
    ]
    return error("TransactionCanceledException", CancellationReasons=listed)


def timeout() -> ReadTimeoutError:
    return ReadTimeoutError(endpoint_url="http://example.invalid")


def two_puts() -> list[Op]:
    return [Put(ITEM, ABSENT), Put(Item("turns", "p", "b", "{}"))]


# Cancelled transactions (bug case 46)


def test_a_conflict_is_repeated_with_the_same_token_and_parameters(scene: Scene) -> None:
    scene.replies(cancelled(None, "TransactionConflict"), cancelled("TransactionConflict", None), {})
    scene.clock.time += 0.5
    scene.store.write(two_puts(), token="t")
    assert len(set(scene.client_tokens())) == 1
    assert scene.client.requests[0] == scene.client.requests[1] == scene.client.requests[2]
    assert scene.pauses == [0.02, 0.04]


def test_the_pause_before_a_repeat_is_partly_random(scene: Scene) -> None:
    scene.random = 0.0
    scene.replies(cancelled(None, "TransactionConflict"), {})
    scene.store.write(two_puts(), token="t")
    assert scene.pauses == [0.01]


def test_a_failed_condition_is_the_answer_and_not_repeated(scene: Scene) -> None:
    scene.replies(cancelled(None, CONDITION))
    with pytest.raises(ConditionFailed) as caught:
        scene.store.write([Put(ITEM), Put(Item("deck", "p", "z", "{}"), VersionIs(1))], token="t")
    assert (caught.value.index, caught.value.item, scene.pauses) == (1, None, [])


def test_a_failed_condition_outweighs_a_conflict(scene: Scene) -> None:
    scene.replies(cancelled(CONDITION, "TransactionConflict", items={0: to_attributes(OTHERS, "theirs")}))
    with pytest.raises(ConditionFailed) as caught:
        scene.store.write(two_puts(), token="t")
    assert (caught.value.index, caught.value.item) == (0, OTHERS)


@pytest.mark.parametrize("throttle", ["ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_throttled_transaction_waits_longer_than_a_conflicting_one(scene: Scene, throttle: str) -> None:
    scene.replies(cancelled("TransactionConflict", throttle), {})
    scene.store.write(two_puts(), token="t")
    assert scene.pauses == [0.1]


@pytest.mark.parametrize("reasons", [("ValidationError", None), ("TransactionConflict", "ValidationError")])
def test_an_invalid_op_is_an_error_at_once(scene: Scene, reasons: tuple[str | None, ...]) -> None:
    scene.replies(cancelled(*reasons))
    with pytest.raises(StorageError) as caught:
        scene.store.write(two_puts(), token="t")
    assert type(caught.value) is StorageError


@pytest.mark.parametrize("reasons", [(None, None), (), ("ItemCollectionSizeLimitExceeded", None), ("Unheard", None)])
def test_an_unknown_reason_is_never_read_as_a_failed_condition(scene: Scene, reasons: tuple[str | None, ...]) -> None:
    scene.replies(cancelled(*reasons))
    with pytest.raises(StorageUnavailable):
        scene.store.write(two_puts(), token="t")


def test_conflicts_without_end_give_up(scene: Scene) -> None:
    scene.replies(*[cancelled(None, "TransactionConflict")] * TRIES)
    with pytest.raises(StorageUnavailable):
        scene.store.write(two_puts(), token="t")
    assert len(scene.pauses) == TRIES - 1


# Lost answers (bug case 47)


def test_a_put_that_was_applied_before_its_answer_was_lost_is_a_success(scene: Scene) -> None:
    scene.replies(timeout(), error(f"{CONDITION}Exception", Item=to_attributes(ITEM, "t")))
    scene.store.write([Put(ITEM, ABSENT)], token="t")
    assert scene.operations == ["put_item", "put_item"]


def test_a_lost_answer_does_not_make_the_item_of_another_ours(scene: Scene) -> None:
    scene.replies(timeout(), error(f"{CONDITION}Exception", Item=to_attributes(OTHERS, "theirs")))
    with pytest.raises(ConditionFailed) as caught:
        scene.store.write([Put(ITEM, ABSENT)], token="t")
    assert (caught.value.index, caught.value.item) == (0, OTHERS)


def test_an_expired_item_in_a_refusal_counts_as_absent(scene: Scene) -> None:
    expired = Item("deck", "p", "a", "{}", expires=int(scene.clock.time))
    scene.replies(error(f"{CONDITION}Exception", Item=to_attributes(expired, "theirs")))
    with pytest.raises(ConditionFailed) as caught:
        scene.store.write([Put(ITEM, EXISTS)], token="t")
    assert caught.value.item is None


def test_a_transaction_whose_answer_was_lost_long_ago_finds_its_token(scene: Scene) -> None:
    scene.replies(timeout(), cancelled(CONDITION, None, items={0: to_attributes(ITEM, "t")}))
    scene.store.write(two_puts(), token="t")
    assert len(set(scene.client_tokens())) == 1


def test_a_conditional_delete_is_repeated_under_a_client_token(scene: Scene) -> None:
    scene.replies(timeout(), {})
    scene.store.write([Delete(Key("deck", "p", "a"), VersionIs(2))], token="t")
    assert scene.operations == ["transact_write_items"] * 2
    assert len(set(scene.client_tokens())) == 1


def test_a_delete_without_a_condition_is_the_cheap_call(scene: Scene) -> None:
    scene.replies({})
    scene.store.write([Delete(Key("deck", "p", "a"))], token="t")
    assert scene.operations == ["delete_item"]


def test_a_client_token_has_at_most_36_letters_and_differs_by_write(scene: Scene) -> None:
    scene.replies({}, {})
    for token in ("long" * 30 + "1", "long" * 30 + "2"):
        scene.store.write(two_puts(), token=token)
    one, two = scene.client_tokens()
    assert (len(one), len(two)) == (36, 36)
    assert one != two


def test_a_used_token_is_our_success_when_our_item_is_there(scene: Scene) -> None:
    mismatch = error("IdempotentParameterMismatchException")
    scene.replies(mismatch, {"Item": to_attributes(ITEM, "t")})
    scene.store.write(two_puts(), token="t")
    assert scene.operations == ["transact_write_items", "get_item"]


def test_a_used_token_without_a_trace_of_ours_is_an_error(scene: Scene) -> None:
    scene.replies(error("IdempotentParameterMismatchException"), {"Item": to_attributes(OTHERS, "theirs")}, {})
    with pytest.raises(StorageError):
        scene.store.write(two_puts(), token="t")


def test_a_transaction_still_in_progress_is_waited_for(scene: Scene) -> None:
    scene.replies(timeout(), error("TransactionInProgressException"), {})
    scene.store.write(two_puts(), token="t")
    assert len(set(scene.client_tokens())) == 1


# Leftovers and pages (bug case 48)


def batch_of(request: dict[str, Any]) -> list[str]:
    return [one["DeleteRequest"]["Key"]["sk"]["S"] for one in request["RequestItems"].get("real-deck", [])]


def test_unprocessed_deletes_are_repeated_until_none_is_left(scene: Scene) -> None:
    keys = [Key("deck", "p", f"m#{n:02d}") for n in range(60)]
    left = [{"DeleteRequest": {"Key": {"pk": {"S": "p"}, "sk": {"S": f"m#{n:02d}"}}}} for n in range(30, 40)]
    scene.replies({"UnprocessedItems": {}}, {"UnprocessedItems": {"real-deck": left}}, {}, {"UnprocessedItems": {}})
    scene.store.delete_many(keys)
    batches = [batch_of(request) for _, request in scene.client.requests]
    assert [len(batch) for batch in batches] == [25, 25, 10, 10]
    assert batches[2] == [f"m#{n:02d}" for n in range(30, 40)]
    assert len(scene.pauses) == 1


def test_deletes_that_never_get_through_give_up(scene: Scene) -> None:
    left = {"UnprocessedItems": {"real-deck": [{"DeleteRequest": {"Key": {"pk": {"S": "p"}, "sk": {"S": "a"}}}}]}}
    scene.replies(*[left] * TRIES)
    with pytest.raises(StorageUnavailable):
        scene.store.delete_many([Key("deck", "p", "a")])
    assert len(scene.pauses) == TRIES - 1


def test_deleting_nothing_calls_nobody(scene: Scene) -> None:
    scene.store.delete_many([])
    assert scene.operations == []


def test_pages_are_followed_even_when_one_is_empty(scene: Scene) -> None:
    here = {"pk": {"S": "p"}, "sk": {"S": "a"}}
    scene.replies(
        {"Items": [], "LastEvaluatedKey": here},
        {"Items": [to_attributes(ITEM, "t")], "LastEvaluatedKey": here},
        {"Items": []},
    )
    page = scene.store.query("deck", "p")
    assert (page.items, page.cursor) == ([ITEM], None)
    assert [request.get("ExclusiveStartKey") for _, request in scene.client.requests] == [None, here, here]


def test_reads_are_strongly_consistent_unless_they_ask_for_less(scene: Scene) -> None:
    scene.replies({}, {"Items": []}, {"Items": []})
    scene.store.get(Key("deck", "p", "a"))
    scene.store.query("deck", "p")
    scene.store.query("deck", "p", consistent=False)
    assert [request["ConsistentRead"] for _, request in scene.client.requests] == [True, True, False]


# Other failures


@pytest.mark.parametrize(
    "failure",
    [
        error("ThrottlingException"),
        error("ProvisionedThroughputExceededException"),
        error("RequestLimitExceeded"),
        error("InternalServerError", status=500),
        error("503", status=503),
        error("TransactionConflictException"),
        EndpointConnectionError(endpoint_url="http://example.invalid"),
        timeout(),
    ],
    ids=str,
)
def test_what_may_pass_is_tried_again(scene: Scene, failure: Exception) -> None:
    scene.replies(failure, {"Item": to_attributes(ITEM, "t")})
    assert scene.store.get(Key("deck", "p", "a")) == ITEM
    assert len(scene.pauses) == 1


@pytest.mark.parametrize(
    "failure",
    [error("AccessDeniedException"), error("ResourceNotFoundException"), NoCredentialsError()],
    ids=str,
)
def test_what_will_not_pass_is_tried_once(scene: Scene, failure: Exception) -> None:
    scene.replies(failure)
    with pytest.raises(StorageUnavailable) as caught:
        scene.store.get(Key("deck", "p", "a"))
    assert caught.value.__cause__ is failure
    assert UPSTREAM not in str(caught.value)


def test_throttling_waits_longer_each_time_up_to_a_second(scene: Scene) -> None:
    scene.replies(*[error("ThrottlingException")] * TRIES)
    with pytest.raises(StorageUnavailable):
        scene.store.get(Key("deck", "p", "a"))
    assert scene.pauses == [0.1, 0.2, 0.4, 0.8, 1.0]


def test_a_refused_request_is_the_fault_of_the_caller(scene: Scene) -> None:
    scene.replies(error("ValidationException"))
    with pytest.raises(StorageError) as caught:
        scene.store.write([Put(ITEM)], token="t")
    assert type(caught.value) is StorageError
    assert UPSTREAM not in str(caught.value)


def test_an_item_that_is_too_large_is_refused_before_any_call(scene: Scene) -> None:
    with pytest.raises(ItemTooLarge):
        scene.store.write([Put(Item("deck", "p", "a", "x" * 410_000))], token="t")
    assert scene.operations == []


def test_no_attribute_is_named_without_an_alias(scene: Scene) -> None:
    scene.replies({}, {}, {}, {"Items": []})
    for condition in (ABSENT, EXISTS, VersionIs(1)):
        scene.store.write([Put(ITEM, condition)], token="t")
    scene.store.query("deck", "p", prefix="m#", after="m#1")
    for _, request in scene.client.requests:
        expression = request.get("ConditionExpression") or request["KeyConditionExpression"]
        aliases = request["ExpressionAttributeNames"]
        for alias, name in aliases.items():
            assert alias in expression
            assert name not in expression.replace(alias, "").replace(f":{name}", "")
