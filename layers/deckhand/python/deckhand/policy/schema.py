"""The schema that documents are checked against, made from the registry's operations."""

from collections.abc import Iterable
from typing import get_args

from deckhand.domain.principal import Role
from deckhand.policy.groups import CHAT, GROUPS, LIST, parents

_ENTITIES = """\
entity Role enum [{roles}];
entity Card;
entity Deck;
entity User, Token, Service, Schedule in [Role] {{
  "user": String,
  "operations"?: Set<String>,
  "cards"?: Set<Card>,
}};
type Call = {{
  "channel": String,
  "operation": String,
  "mutates": Bool,
  "destructive": Bool,
  "confirmed": Bool,
  "confirmWrites": String,
}};
action {groups};
"""
_ACTION = """\
action {name}{parents} appliesTo {{
  principal: [User, Token, Service, Schedule], resource: [{resources}], context: Call
}};
"""


def schema_of(operations: Iterable[tuple[str, bool]]) -> str:
    """`operations` are names, and whether each is about a card. What is about none has the deck as its resource; lists
    have it, too, and each card that they would show.
    """
    head = _ENTITIES.format(roles=_quoted(get_args(Role)), groups=_quoted((*GROUPS, LIST)))
    actions = [_action(name, about_card=about_card) for name, about_card in ((CHAT, False), *operations)]
    return head + "".join(actions)


def _action(name: str, *, about_card: bool) -> str:
    groups = parents(name)
    return _ACTION.format(
        name=_quoted([name]),
        parents=f" in [{_quoted(groups)}]" if groups else "",
        resources="Card, Deck" if about_card or LIST in groups else "Deck",
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
