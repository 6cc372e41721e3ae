"""A user's reminders, in one partition a user.

    deck  <tenant>#reminders#<user>  state#<card>#<item>   the index's word: trigger, next turn, last slot
    deck  <tenant>#reminders#<user>  choice#<card>#<item>  on or off, shown or hidden, as the user set it
    deck  <tenant>#reminders#<user>  fire#<card>#<item>    when its turn last came, and what became of it
    deck  <tenant>#reminders#<user>  test#<card>#<item>    there for a minute after a test

A state names its pending occurrence (`storage/due.py`), and both move in one transaction, so that one is never without
the other. States move on the condition of their version.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from deckhand.domain.errors import ConditionFailed, StorageUnavailable
from deckhand.domain.reminders import Choice, Fire, Reminder, Status
from deckhand.storage.port import ABSENT, Condition, Delete, Item, ItemStore, Key, Op, Put, VersionIs

ATTEMPTS = 20
TEST_EVERY_S = 60
KINDS = ("state", "choice", "fire", "test")


@dataclass(frozen=True, slots=True)
class StoredReminder:
    reminder: Reminder
    version: int


@dataclass(slots=True)
class UserReminders:
    """By reminder id: `card#item`."""

    states: dict[str, StoredReminder] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    fires: dict[str, Fire] = field(default_factory=dict)

    def choice(self, reminder: str) -> Choice:
        return self.choices.get(reminder, Choice())


class Reminders:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    def of_user(self, user: str) -> UserReminders:
        """All that is kept of a user's reminders. One query."""
        found = UserReminders()
        for item in self._store.query("deck", self._pk(user)).items:
            kind, _, reminder = item.sk.partition("#")
            if kind == "state":
                found.states[reminder] = _stored(item)
            elif kind == "choice":
                found.choices[reminder] = Choice.model_validate_json(item.body)
            elif kind == "fire":
                found.fires[reminder] = Fire.model_validate_json(item.body)
        return found

    def states_of_card(self, user: str, card: str) -> dict[str, StoredReminder]:
        """By item."""
        items = self._store.query("deck", self._pk(user), prefix=f"state#{card}#").items
        return {stored.reminder.item: stored for stored in map(_stored, items)}

    def choice(self, user: str, reminder: str) -> Choice:
        item = self._store.get(self._key(user, "choice", reminder))
        return Choice() if item is None else Choice.model_validate_json(item.body)

    def choose(self, user: str, reminder: str, edit: Callable[[Choice], Choice], *, token: str) -> Choice:
        """Applies `edit`, again when somebody was quicker."""
        key = self._key(user, "choice", reminder)
        for attempt in range(ATTEMPTS):
            item = self._store.get(key)
            wanted = edit(Choice() if item is None else Choice.model_validate_json(item.body))
            version = 1 if item is None else item.version + 1
            condition: Condition = ABSENT if item is None else VersionIs(item.version)
            put = Put(Item(key.table, key.pk, key.sk, wanted.to_json(), version), condition)
            try:
                self._store.write([put], token=f"{token}.{attempt}")
            except ConditionFailed:
                continue
            return wanted
        raise StorageUnavailable()

    def test_begins(self, user: str, reminder: str, *, now: float, token: str) -> bool:
        """False when the last test was less than a minute ago."""
        key = self._key(user, "test", reminder)
        item = Item(key.table, key.pk, key.sk, "{}", expires=int(now) + TEST_EVERY_S)
        try:
            self._store.write([Put(item, ABSENT)], token=token)
        except ConditionFailed:
            return False
        return True

    def put_state(self, user: str, reminder: Reminder, version: int | None) -> Put:
        """`version` is the one that was read; None when there was none."""
        key = self._key(user, "state", reminder.id)
        condition: Condition = ABSENT if version is None else VersionIs(version)
        item = Item(key.table, key.pk, key.sk, reminder.to_json(), 1 if version is None else version + 1)
        return Put(item, condition)

    def put_fire(self, user: str, reminder: str, fire: Fire) -> Put:
        key = self._key(user, "fire", reminder)
        return Put(Item(key.table, key.pk, key.sk, fire.to_json()))

    def forget(self, user: str, reminder: str, version: int) -> list[Op]:
        """Takes all that is kept of a reminder away: one that is made anew under its id begins clean."""
        conditions: dict[str, Condition] = {"state": VersionIs(version)}
        return [Delete(self._key(user, kind, reminder), conditions.get(kind)) for kind in KINDS]

    def _pk(self, user: str) -> str:
        return f"{self._tenant}#reminders#{user}"

    def _key(self, user: str, kind: str, reminder: str) -> Key:
        return Key("deck", self._pk(user), f"{kind}#{reminder}")


class Fires:
    """For whoever delivers pushes."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store

    def record(self, tenant: str, user: str, reminder_id: str, at: float, status: Status) -> None:
        """What became of a turn: `at` in epoch seconds. The last word stays. Raises storage errors."""
        put = Reminders(self._store, tenant).put_fire(user, reminder_id, Fire(at=at, status=status))
        self._store.write([put], token=f"{user}#{reminder_id}#{at}#{status}")


def _stored(item: Item) -> StoredReminder:
    return StoredReminder(Reminder.model_validate_json(item.body), item.version)
