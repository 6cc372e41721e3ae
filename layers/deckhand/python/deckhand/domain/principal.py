"""Who acts."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["user", "token", "service", "schedule"]
Channel = Literal["api", "chat", "direct", "mcp", "schedule", "bus"]


@dataclass(frozen=True, slots=True)
class Principal:
    """`id` names who acts, `user` whose conversations and settings they see, `tenant` whose deployment it is (never
    from the request).
    """

    kind: Kind
    id: str
    user: str
    role: str
    tenant: str = "main"

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.id}"
