"""How a push to one device ended."""

from dataclasses import dataclass
from typing import Literal

State = Literal["sent", "gone", "too_large", "failed", "later"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`gone`: the push service knows the device no more. `failed`: it will never take this push. `later`: to be tried
    again, not before `wait` seconds where the push service said so.
    """

    state: State
    wait: float | None = None
