"""Where the assistant is switched off: for the deployment, for a user, for a token. What is not there is on.

deck  <tenant>#switches  all | user#<id> | token#<id>  {by, at}
"""

from dataclasses import dataclass
from typing import Literal

from deckhand.domain import json_text
from deckhand.domain.errors import AgentSwitchedOff
from deckhand.domain.principal import Principal
from deckhand.storage.port import ABSENT, Check, Delete, Item, ItemStore, Key, Put

Scope = Literal["all", "user", "token"]


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """`id` is empty for the whole deployment; `at` is ISO 8601."""

    scope: Scope
    id: str
    by: str
    at: str


class Switches:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._pk = store, f"{tenant}#switches"

    def all(self) -> list[SwitchedOff]:
        return [_off(item) for item in self._store.query("deck", self._pk).items]

    def check(self, principal: Principal) -> None:
        """One read. Raises `AgentSwitchedOff`."""
        if _concerned(principal) & {item.sk for item in self._store.query("deck", self._pk).items}:
            raise AgentSwitchedOff()

    def checks(self, *principals: Principal) -> list[Check]:
        """As conditions of another write: one of them fails where the assistant is off for any of them."""
        concerned = set().union(*(_concerned(principal) for principal in principals))
        return [Check(Key("deck", self._pk, sk), ABSENT) for sk in sorted(concerned)]

    def is_off(self, scope: Scope, id: str) -> bool:
        """Whether this very switch is off."""
        return self._store.get(self._key(scope, id)) is not None

    def turn(self, scope: Scope, id: str, *, on: bool, by: str, at: str, token: str) -> None:
        key = self._key(scope, id)
        if on:
            self._store.write([Delete(key)], token=token)
        else:
            self._store.write(
                [Put(Item(key.table, key.pk, key.sk, json_text.dumps({"by": by, "at": at})))], token=token
            )

    def _key(self, scope: Scope, id: str) -> Key:
        return Key("deck", self._pk, scope if scope == "all" else f"{scope}#{id}")


def _concerned(principal: Principal) -> set[str]:
    return {"all", f"user#{principal.user}", f"{principal.kind}#{principal.id}"}


def _off(item: Item) -> SwitchedOff:
    scope, _, id = item.sk.partition("#")
    told = json_text.loads(item.body)
    known: Scope = "user" if scope == "user" else "token" if scope == "token" else "all"
    return SwitchedOff(known, id, told["by"], told["at"])
