"""DynamoDB, by the low-level client. The only module that knows the client.

All repeats are made here, not by the SDK: only here is it known that a condition which fails on the second try may
have been failed by our own first one (bug case 47), and which cancelled transactions are worth another try (46).
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from random import random as uniform
from typing import TYPE_CHECKING, Any

from deckhand.domain.errors import ConditionFailed, StorageError, StorageUnavailable
from deckhand.storage.attributes import (
    condition_fields,
    key_attributes,
    live_item,
    range_fields,
    to_attributes,
    written_by,
)
from deckhand.storage.port import Check, Delete, Item, Key, Op, Page, Put, Table, check_key, check_ops
from deckhand.storage.ranges import key_range
from deckhand.storage.refusals import Refusal, failed_conditions, refusal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TRIES = 6
LONGEST_DELAY_S = 1.0
BATCH_KEYS = 25
CLIENT_TOKEN_LETTERS = 36


def connect(**options: Any) -> "DynamoDBClient":
    """`options` go to `boto3.client`. The timeouts fit a lease of 30 s: all tries of a dead endpoint end before it."""
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=2,
        read_timeout=4,
        max_pool_connections=40,
        tcp_keepalive=True,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return boto3.client("dynamodb", config=config, **options)


class DynamoStore:
    """An `ItemStore` on three tables with the keys `pk` and `sk` and the TTL attribute `expires`."""

    def __init__(
        self,
        client: "DynamoDBClient",
        tables: Mapping[Table, str],
        *,
        now: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = uniform,
    ) -> None:
        """`tables` has the real names. `now` gives epoch seconds, `random` numbers from 0 to 1."""
        self._client = client
        self._tables = dict(tables)
        self._now = now
        self._sleep = sleep
        self._random = random

    def get(self, key: Key) -> Item | None:
        return live_item(key.table, self._attributes(key), self._now())

    def query(
        self,
        table: Table,
        pk: str,
        *,
        prefix: str = "",
        after: str | None = None,
        before: str | None = None,
        backwards: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        consistent: bool = True,
    ) -> Page:
        check_key(Key(table, pk, "any"))
        if limit is not None and limit < 1:
            raise StorageError("A page has at least one item.")
        keys = key_range(prefix, after, before, backwards=backwards, cursor=cursor)
        if keys.is_empty:
            return Page([])
        request: dict[str, Any] = {
            "TableName": self._tables[table],
            "ConsistentRead": consistent,
            "ScanIndexForward": not backwards,
            **range_fields(pk, keys),
        }
        if limit is not None:
            # One more than asked for tells whether more follows.
            request["Limit"] = limit + 1
        items: list[Item] = []
        while limit is None or len(items) <= limit:
            answer = self._call("query", request)
            found = (live_item(table, attributes, self._now()) for attributes in answer["Items"])
            items += [item for item in found if item is not None and keys.holds(item.sk)]
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        page = items[:limit]
        return Page(page, page[-1].sk if len(items) > len(page) else None)

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        check_ops(ops)
        operation, request = self._write_request(ops, token)
        try:
            self._call(operation, request)
        except _Refused as refused:
            if self._is_own_success(refused, ops, token):
                return
            if refused.kind is Refusal.TOKEN_USED:
                raise StorageError("This token names another write.") from refused.__cause__
            first = failed_conditions(refused.answer)[0]
            item = live_item(ops[first.index].key.table, first.attributes, self._now())
            raise ConditionFailed(first.index, item) from refused.__cause__

    def delete_many(self, keys: Sequence[Key]) -> None:
        for key in keys:
            check_key(key)
        distinct = list(dict.fromkeys(keys))
        for start in range(0, len(distinct), BATCH_KEYS):
            self._delete_batch(distinct[start : start + BATCH_KEYS])

    def _delete_batch(self, keys: Sequence[Key]) -> None:
        left: dict[str, list[Any]] = {}
        for key in keys:
            left.setdefault(self._tables[key.table], []).append({"DeleteRequest": {"Key": key_attributes(key)}})
        idle_tries = 0
        while left:
            before = sum(map(len, left.values()))
            left = self._call("batch_write_item", {"RequestItems": left}).get("UnprocessedItems") or {}
            idle_tries = idle_tries + 1 if sum(map(len, left.values())) == before else 0
            if idle_tries == TRIES:
                raise StorageUnavailable()
            if left:
                self._pause(Refusal.BUSY, idle_tries)

    def _write_request(self, ops: Sequence[Op], token: str) -> tuple[str, dict[str, Any]]:
        # One clock value for all tries: a client token must come with the same parameters again.
        now = int(self._now())
        single = ops[0] if len(ops) == 1 else None
        if isinstance(single, Put):
            return "put_item", self._op_fields(single, token, now)
        if isinstance(single, Delete) and single.condition is None:
            return "delete_item", self._op_fields(single, token, now)
        kinds = {Put: "Put", Delete: "Delete", Check: "ConditionCheck"}
        client_token = hashlib.sha256(token.encode()).hexdigest()[:CLIENT_TOKEN_LETTERS]
        items = [{kinds[type(op)]: self._op_fields(op, token, now)} for op in ops]
        return "transact_write_items", {"TransactItems": items, "ClientRequestToken": client_token}

    def _op_fields(self, op: Op, token: str, now: int) -> dict[str, Any]:
        target = {"Item": to_attributes(op.item, token)} if isinstance(op, Put) else {"Key": key_attributes(op.key)}
        return {"TableName": self._tables[op.key.table], **target, **condition_fields(op.condition, now)}

    def _is_own_success(self, refused: "_Refused", ops: Sequence[Op], token: str) -> bool:
        """Whether the write was refused because an earlier try of the same write had been applied."""
        if refused.kind is Refusal.CONDITION:
            failed = failed_conditions(refused.answer)
            return any(isinstance(ops[f.index], Put) and written_by(token, f.attributes) for f in failed)
        # The same token with another clock value in its conditions: what is stored must tell.
        puts = [op for op in ops if isinstance(op, Put)]
        if puts:
            return any(written_by(token, self._attributes(op.key)) for op in puts)
        return all(self.get(op.key) is None for op in ops if isinstance(op, Delete))

    def _attributes(self, key: Key) -> Mapping[str, Any] | None:
        check_key(key)
        request = {"TableName": self._tables[key.table], "Key": key_attributes(key), "ConsistentRead": True}
        attributes: Mapping[str, Any] | None = self._call("get_item", request).get("Item")
        return attributes

    def _call(self, operation: str, request: Mapping[str, Any]) -> Any:
        """The answer, after as many tries as make sense. Raises `_Refused`, `StorageError`, `StorageUnavailable`."""
        from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

        failure: Exception | None = None
        for attempt in range(TRIES):
            try:
                return getattr(self._client, operation)(**request)
            except ClientError as error:
                kind, failure = refusal(error.response), error
                if kind.first_delay is None:
                    raise _as_error(kind, error.response) from error
            except (HTTPClientError, ConnectionError) as error:
                kind, failure = Refusal.BUSY, error
            except BotoCoreError as error:
                raise StorageUnavailable() from error
            if attempt + 1 < TRIES:
                self._pause(kind, attempt)
        raise StorageUnavailable() from failure

    def _pause(self, kind: Refusal, attempt: int) -> None:
        longest = min(LONGEST_DELAY_S, (kind.first_delay or 0) * 2**attempt)
        # At least half of it, so that a burst of tries is never over at once.
        self._sleep(longest * (0.5 + self._random() / 2))


class _Refused(Exception):
    """A write was refused for a reason that its ops must explain."""

    def __init__(self, kind: Refusal, answer: Mapping[str, Any]) -> None:
        super().__init__(kind)
        self.kind = kind
        self.answer = answer


def _as_error(kind: Refusal, answer: Mapping[str, Any]) -> Exception:
    if kind in (Refusal.CONDITION, Refusal.TOKEN_USED):
        return _Refused(kind, answer)
    if kind is Refusal.INVALID:
        return StorageError("The store does not take this request.")
    return StorageUnavailable()
