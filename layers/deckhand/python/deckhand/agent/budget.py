"""What a turn may use: steps, time and the answer's size."""

from dataclasses import dataclass

from deckhand.agent.chat import StepLimits

CEILING_S = 540.0
# The idle limit stays under the hard ceiling, or a soft notice would become a 504.
SOFT_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Budget:
    """`steps` round-trips; `idle_s` longest silence in one step; `turn_s` wall clock of the turn. None switches a
    time limit off.
    """

    steps: int = 36
    idle_s: float | None = 180.0
    turn_s: float | None = 720.0

    def step_limits(self, elapsed_s: float) -> StepLimits:
        """Limits of a step that begins `elapsed_s` into the turn."""
        idle = None if self.idle_s is None else min(self.idle_s, CEILING_S - SOFT_MARGIN_S)
        left = None if self.turn_s is None else max(0.0, self.turn_s - elapsed_s)
        return StepLimits(idle=idle, deadline=left, ceiling=CEILING_S)

    def time_is_up(self, elapsed_s: float) -> bool:
        return self.turn_s is not None and elapsed_s >= self.turn_s
