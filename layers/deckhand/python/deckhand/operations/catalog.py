"""All families of operations. Importing this module fills the registry; adding a family is adding its line here."""

from deckhand.operations import (
    agent_switch,
    audit,
    card_data,
    conversations,
    docs,
    feedback,
    fields,
    grants,
    history,
    manifests,
    notifications,
    overview,
    policy,
    push,
    reminders,
    reports,
    search,
    templates,
    tokens,
    usage,
    users,
)
from deckhand.operations.registry import REGISTRY

CARD_FAMILIES = (manifests, card_data, fields, notifications, reminders, overview, templates, docs, reports, feedback)
CONVERSATION_FAMILIES = (conversations, search, history, usage, grants, agent_switch, audit)
IDENTITY_FAMILIES = (tokens, users, policy, push)

__all__ = ["CARD_FAMILIES", "CONVERSATION_FAMILIES", "IDENTITY_FAMILIES", "REGISTRY"]
