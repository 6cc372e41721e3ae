"""Overviews of the deck: views, settings, recent activity, hygiene."""

from typing import Any

from typing_extensions import TypedDict

from deckhand.domain.activity import Delta, Finding, Source, age_days, findings, last_delta
from deckhand.domain.cards import enabled
from deckhand.domain.errors import NotFound
from deckhand.domain.renderers import VIEWS
from deckhand.domain.times import local
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.manifests import has_data
from deckhand.operations.permission import visible_cards
from deckhand.operations.registry import Http, operation
from deckhand.storage.cards import Card


class View(Arguments):
    view: str


class CardOfView(TypedDict):
    """`viewConfig` is the view's own part of `meta`."""

    id: str
    meta: dict[str, Any]
    viewConfig: dict[str, Any]


class CardsOfView(TypedDict):
    cards: list[CardOfView]


class CardSetting(TypedDict):
    """`emoji` is as it is written, a text as a rule."""

    id: str
    label: str
    emoji: Any
    description: str | None
    enabled: bool
    hasData: bool


class CardSettings(TypedDict):
    cards: list[CardSetting]


class CardActivity(TypedDict):
    """`renderer` is as it is written, a text as a rule. `lastEntryDate` is the newest date in the rows, `ageDays` the
    whole days since then or, without one (`staleSource` is `updatedAt`), since the last write.
    """

    id: str
    label: str
    renderer: Any
    rowCount: int
    lastEntryDate: str | None
    ageDays: int | None
    lastNDelta: Delta | None
    staleSource: Source | None


class Activity(TypedDict):
    cards: list[CardActivity]


class Findings(TypedDict):
    findings: list[Finding]


@operation(summary="List the cards of a view", input=View, http=Http("GET", "/api/views/{view}"))
def list_view(caller: Caller, given: View) -> CardsOfView:
    """In the view's order; a card without data is there too. Raises `NotFound`."""
    if given.view not in VIEWS:
        raise NotFound(f"The views are {', '.join(VIEWS)}.")
    shown = [card for card in visible_cards(caller, "list_view") if _in_view(card, given.view)]
    shown.sort(key=lambda card: _order(card, given.view))
    metas = [(card.id, card.manifest["meta"]) for card in shown]
    return {"cards": [{"id": card, "meta": meta, "viewConfig": meta[given.view]} for card, meta in metas]}


def _in_view(card: Card, view: str) -> bool:
    config = card.manifest["meta"].get(view)
    shown = isinstance(config, dict) and config.get("enabled") is True and bool(config.get("component"))
    return shown and enabled(card.manifest)


def _order(card: Card, view: str) -> tuple[float, str]:
    meta = card.manifest["meta"]
    own = meta[view].get("order")
    order = own if isinstance(own, int | float) else meta.get("order")
    return (order if isinstance(order, int | float) else 1000, str(meta["label"]))


@operation(summary="List all cards for the settings", input=Nothing, http=Http("GET", "/api/settings/cards"))
def list_card_settings(caller: Caller, _: Nothing) -> CardSettings:
    """In the person's order, hidden ones too."""
    cards: list[CardSetting] = [
        {
            "id": card.id,
            "label": card.manifest["meta"]["label"],
            "emoji": card.manifest["meta"].get("emoji"),
            "description": card.manifest.get("description"),
            "enabled": enabled(card.manifest),
            "hasData": has_data(card),
        }
        for card in visible_cards(caller, "list_card_settings")
    ]
    return {"cards": cards}


@operation(
    summary="What happened lately on every card",
    description=(
        "One pass over all cards: rows, date of the last entry, its age in days, the change over the last "
        "entries. Call it "
        "before you answer how tracking goes, and before you make a card, to follow the others' conventions."
    ),
    input=Nothing,
    http=Http("GET", "/api/activity"),
    agent=True,
    label="Looking at recent activity",
)
def get_recent_activity(caller: Caller, _: Nothing) -> Activity:
    """In the person's order. Reads no rows."""
    return {"cards": [_activity(caller, card) for card in visible_cards(caller, "get_recent_activity")]}


def _activity(caller: Caller, card: Card) -> CardActivity:
    state, meta = card.state, card.manifest["meta"]
    written = None if state.written_at is None else local(state.written_at, caller.zone).date()
    age, source = age_days(state.recency, written, caller.today)
    view = meta.get("view")
    return {
        "id": card.id,
        "label": meta["label"],
        "renderer": view.get("component") if isinstance(view, dict) else None,
        "rowCount": state.count if state.shape == "rows" else int(state.shape == "value"),
        "lastEntryDate": state.recency.newest[0].date if state.recency.newest else None,
        "ageDays": age,
        "lastNDelta": last_delta(state.recency),
        "staleSource": source,
    }


@operation(
    summary="Check the deck's health",
    description=(
        "Reports stale cards (only those that declare meta.cadence.expectDays), very long ones, and inputs that"
        " no row uses. "
        "Changes nothing. No finding means only that no card that declares a cadence is late."
    ),
    input=Nothing,
    http=Http("GET", "/api/hygiene"),
    agent=True,
    label="Checking the deck",
)
def hygiene_scan(caller: Caller, _: Nothing) -> Findings:
    """Card by card, none of hidden ones."""
    found = [
        finding
        for card in visible_cards(caller, "hygiene_scan")
        for finding in findings(
            card.id,
            card.manifest,
            count=card.state.count,
            is_rows=card.state.shape == "rows",
            recency=card.state.recency,
            today=caller.today,
        )
    ]
    return {"findings": found}
