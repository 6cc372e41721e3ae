"""All families of operations. Importing this module fills the registry; adding a family is adding its line here."""

from deckhand.operations import conversations, history, manifests, search
from deckhand.operations.registry import REGISTRY

FAMILIES = (manifests, conversations, search, history)

__all__ = ["FAMILIES", "REGISTRY"]
