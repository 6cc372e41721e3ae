"""A store that takes from each function only what its role in the template allows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from deckhand.domain.errors import StorageUnavailable
from deckhand.storage.port import Check, Delete, Item, ItemStore, Key, Op, Page, Put, Table
from infra.local.intrinsics import load
from infra.local.template import read_template
from tests.sam import TEMPLATE

_ACTIONS: dict[type[Op], str] = {Put: "PutItem", Delete: "DeleteItem", Check: "ConditionCheckItem"}
_TABLES = {"DeckTable": "deck", "TurnsTable": "turns", "IdentityTable": "identity"}


@dataclass(frozen=True)
class Right:
    """Actions on items of some tables; `keys` are patterns of the partitions."""

    actions: frozenset[str]
    tables: frozenset[str]
    keys: tuple[str, ...]

    def covers(self, action: str, table: str, pk: str) -> bool:
        return action in self.actions and table in self.tables and any(fnmatchcase(pk, key) for key in self.keys)


@cache
def function_of(method: str, path: str) -> str:
    """The function that the template sends a route to."""
    [name] = [
        function.name
        for function in read_template(TEMPLATE)
        for route in function.routes
        if (route.method, route.resource) == (method, path)
    ]
    return name


@cache
def rights_of(function: str) -> tuple[Right, ...]:
    resources = load(TEMPLATE)["Resources"]
    role = resources[resources[function]["Properties"]["Role"]["Fn::GetAtt"][0]]["Properties"]
    [policy] = role["Policies"]
    return tuple(_rights(policy["PolicyDocument"]["Statement"]))


def _rights(statements: Sequence[dict[str, Any]]) -> Iterator[Right]:
    for statement in statements:
        named = [name.partition(":") for name in _listed(statement.get("Action", []))]
        actions = {action for service, _, action in named if service == "dynamodb"}
        if actions:
            tables = {_TABLES[one["Fn::GetAtt"][0]] for one in _listed(statement["Resource"])}
            condition = statement.get("Condition", {}).get("ForAllValues:StringLike", {})
            keys = condition.get("dynamodb:LeadingKeys", ["*"])
            yield Right(frozenset(actions), frozenset(tables), tuple(keys))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@dataclass
class Guarded:
    """An `ItemStore` in front of another. While `function` is None everything is allowed."""

    store: ItemStore
    function: str | None = None
    refused: list[str] = field(default_factory=list)

    def get(self, key: Key) -> Item | None:
        self._check("GetItem", key.table, key.pk)
        return self.store.get(key)

    def query(self, table: Table, pk: str, **bounds: Any) -> Page:
        self._check("Query", table, pk)
        return self.store.query(table, pk, **bounds)

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        for op in ops:
            self._check(_ACTIONS[type(op)], op.key.table, op.key.pk)
        self.store.write(ops, token=token)

    def delete_many(self, keys: Sequence[Key]) -> None:
        for key in keys:
            self._check("BatchWriteItem", key.table, key.pk)
        self.store.delete_many(keys)

    def _check(self, action: str, table: str, pk: str) -> None:
        if self.function is not None and not any(one.covers(action, table, pk) for one in rights_of(self.function)):
            self.refused.append(f"{self.function} {action} {table} {pk}")
            raise StorageUnavailable()
