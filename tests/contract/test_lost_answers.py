"""Writes that the engine applied and whose answer never came, against real client tokens (bug case 47)."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from deckhand.storage.dynamodb import DynamoStore
from deckhand.storage.port import ABSENT, EXISTS, Delete, Op, Put, VersionIs
from tests.stores import Clock, DynamoTables, Shelf, new_token


class LosesAnswers:
    """A client that makes the calls and loses the first answer of each write."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.lost: list[str] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**request: Any) -> Any:
            answer = getattr(self._client, operation)(**request)
            if operation not in self.lost and operation != "get_item":
                self.lost.append(operation)
                raise ReadTimeoutError(endpoint_url="http://127.0.0.1")
            return answer

        return call


WRITES: dict[str, Callable[[Shelf], list[Op]]] = {
    "put_item": lambda shelf: [Put(shelf.item("head", version=2), VersionIs(1))],
    "delete_item": lambda shelf: [Delete(shelf.key("head"))],
    "transact_write_items": lambda shelf: [Delete(shelf.key("head"), VersionIs(1)), Put(shelf.item("m#1"), ABSENT)],
}


@pytest.mark.parametrize("operation", WRITES)
def test_a_write_whose_answer_was_lost_succeeds_once(ministack_tables: DynamoTables, operation: str) -> None:
    clock = Clock()
    plain = Shelf(ministack_tables.store(clock), clock)
    plain.put("head", version=1)
    client: Any = LosesAnswers(ministack_tables.client)
    store = DynamoStore(client, ministack_tables.names, now=clock, sleep=lambda _: None)
    store.write(WRITES[operation](plain), token=new_token())
    assert client.lost == [operation]
    found = [(item.sk, item.version) for item in plain.store.query("deck", plain.pk).items]
    assert found == {"put_item": [("head", 2)], "delete_item": [], "transact_write_items": [("m#1", 1)]}[operation]


def test_a_conditional_delete_whose_answer_was_lost_succeeds(ministack_tables: DynamoTables) -> None:
    clock = Clock()
    plain = Shelf(ministack_tables.store(clock), clock)
    plain.put("proposal")
    client: Any = LosesAnswers(ministack_tables.client)
    store = DynamoStore(client, ministack_tables.names, now=clock, sleep=lambda _: None)
    store.write([Delete(plain.key("proposal"), EXISTS)], token=new_token())
    assert plain.get("proposal") is None
