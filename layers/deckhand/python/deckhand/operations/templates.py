"""Ready-made cards to begin with, and what a chat may begin with."""

from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain import json_text
from deckhand.domain.cards import enabled, first_line
from deckhand.domain.errors import NotFound
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.manifests import NewCard, NewManifest, create_manifest
from deckhand.operations.permission import visible_cards
from deckhand.operations.registry import Http, operation
from deckhand.storage.cards import Card


class TemplateId(Arguments):
    templateId: str = Field(description="A template's id, as the list shows it.")


class Template(TypedDict):
    """`description` is the first line, at most 200 characters."""

    id: str
    label: str
    emoji: str
    category: str
    description: str
    featured: bool


class Templates(TypedDict):
    templates: list[Template]


class StarterPrompt(TypedDict):
    """`data` asks about what is there, `tweak` for a change of the card."""

    text: str
    kind: Literal["data", "tweak"]


class CardPrompt(StarterPrompt):
    cardId: str


class CardPrompts(TypedDict):
    prompts: list[CardPrompt]


@operation(summary="List the templates", input=Nothing, http=Http("GET", "/api/templates"))
def list_templates(_: Caller, __: Nothing) -> Templates:
    """Featured ones first."""
    shown: list[Template] = [
        {
            "id": template["meta"]["id"],
            "label": template["meta"]["label"],
            "emoji": template["meta"]["emoji"],
            "category": template["meta"]["category"],
            "description": first_line(template["description"], 200),
            "featured": template["meta"]["template"]["featured"],
        }
        for template in _templates().values()
    ]
    return {"templates": sorted(shown, key=lambda one: not one["featured"])}


@operation(
    summary="Create a card from a template",
    input=TemplateId,
    mutates=True,
    http=Http("POST", "/api/settings/cards/from-template", status=201),
)
def create_from_template(caller: Caller, given: TemplateId) -> NewCard:
    """Raises `NotFound`, `DuplicateId` when the card is there already."""
    template = _templates().get(given.templateId)
    if template is None:
        raise NotFound("There is no template of this id.")
    meta = {name: value for name, value in template["meta"].items() if name != "template"}
    return create_manifest(caller, NewManifest(manifest={**template, "meta": meta}))


@operation(summary="List starter prompts", input=Nothing, http=Http("GET", "/api/prompts"))
def list_prompts(caller: Caller, _: Nothing) -> CardPrompts:
    """One of each enabled card that has any, the next one each day."""
    cards = [card for card in visible_cards(caller, "list_prompts") if enabled(card.manifest) and _starters(card)]
    turn = caller.today.toordinal()
    prompts: list[CardPrompt] = []
    for place, card in enumerate(cards):
        starters = _starters(card)
        prompts.append({"cardId": card.id, **starters[(turn + place) % len(starters)]})
    return {"prompts": prompts}


def _starters(card: Card) -> list[StarterPrompt]:
    chat = card.manifest["meta"].get("chat") or {}
    return [{"text": one["text"], "kind": one["kind"]} for one in chat.get("starterPrompts") or []]


@cache
def _templates() -> dict[str, dict[str, Any]]:
    files = (resources.files("deckhand") / "templates").iterdir()
    found = [json_text.loads(file.read_bytes()) for file in files if file.name.endswith(".json")]
    found.sort(key=lambda template: template["meta"]["view"]["order"])
    return {template["meta"]["id"]: template for template in found}
