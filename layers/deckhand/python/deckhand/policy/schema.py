"""The schema that documents are checked against, made from the registry's operations."""

from collections.abc import Iterable
from typing import get_args

from deckhand.domain.access import Kept
from deckhand.domain.principal import Role
from deckhand.policy.groups import CHAT, GROUPS, LIST, OF_CONVERSATIONS, parents

_ENTITIES = """\
entity Role enum [{roles}];
entity Card;
entity Conversation {{"user": String}};
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


def schema_of(operations: Iterable[tuple[str, Kept | None]]) -> str:
    """`operations` are names, and what each is about. What is about no single card or conversation has the deck as its
    resource; lists have it, too, and each card or conversation that they would show, and chat the conversation, if any.
    """
    head = _ENTITIES.format(roles=_quoted(get_args(Role)), groups=_quoted((*GROUPS, LIST)))
    actions = [_action(name, about) for name, about in ((CHAT, None), *operations)]
    return head + "".join(actions)


def _action(name: str, about: Kept | None) -> str:
    groups = parents(name)
    resources = ["Deck"]
    if about == "card" or LIST in groups:
        resources.append("Card")
    if about == "conversation" or name in OF_CONVERSATIONS:
        resources.append("Conversation")
    return _ACTION.format(
        name=_quoted([name]),
        parents=f" in [{_quoted(groups)}]" if groups else "",
        resources=", ".join(sorted(resources)),
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
