"""Who acts."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["user", "token", "service", "schedule"]
Role = Literal["owner", "editor", "viewer", "agent", "operator"]
Channel = Literal["api", "chat", "direct", "mcp", "schedule", "bus"]


@dataclass(frozen=True, slots=True)
class Principal:
    """`id` names who acts, `user` whose conversations and settings they see, `tenant` whose deployment it is (never
    from the request). `operations` and `cards` are what a scoped token is narrowed to, None where it is not. `until` is
    when it ends by itself, in epoch seconds.
    """

    kind: Kind
    id: str
    user: str
    role: Role
    tenant: str = "main"
    operations: frozenset[str] | None = None
    cards: frozenset[str] | None = None
    until: float | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.id}"


AGENT = Principal(kind="token", id="agent", user="owner", role="agent")
"""Whoever holds the agent's token of the environment."""
DIRECT = Principal(kind="service", id="direct", user="service:direct", role="agent")
"""Whoever holds the token of the direct form of chat; its sessions are its own."""
