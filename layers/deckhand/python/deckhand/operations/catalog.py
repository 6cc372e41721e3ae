"""All families of operations. Importing this module fills the registry; adding a family is adding its line here."""

from deckhand.operations import conversations, manifests
from deckhand.operations.registry import REGISTRY

FAMILIES = (manifests, conversations)

__all__ = ["FAMILIES", "REGISTRY"]
