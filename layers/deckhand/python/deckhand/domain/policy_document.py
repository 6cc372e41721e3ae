"""The owner's policy document as it is stored."""

from deckhand.domain.model import Model

MAX_CHARS = 32_000


class PolicyDocument(Model):
    """`version` counts from 1. `shadow` is evaluated beside `policy`, and only told of in the log. `written_by` is the
    principal's name, `written_at` ISO 8601.
    """

    version: int
    policy: str
    shadow: str | None = None
    written_by: str
    written_at: str
