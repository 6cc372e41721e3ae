"""Whether and when a failed step is tried again (api.md, "How a step can end badly")."""

from dataclasses import dataclass

from deckhand.agent.chat import StepIdle
from deckhand.agent.refusals import TryFailed

PAUSES_S = (0.5, 2.0)
LONGEST_PAUSE_S = 10.0


@dataclass(slots=True)
class Tries:
    """What one step has tried already."""

    pauses: int = 0
    after_silence: bool = False

    def pause(self, failed: TryFailed, left: float) -> float | None:
        """Seconds until the next try; None when there is none, also when it would not fit into `left` seconds."""
        if failed.silent and isinstance(failed.refusal.error, StepIdle) and not self.after_silence:
            # The connection may be dead: one more try on a new one (bug case 19 b).
            self.after_silence = True
            return 0.0
        if not failed.refusal.again or self.pauses >= len(PAUSES_S):
            return None
        pause = PAUSES_S[self.pauses] if failed.retry_after is None else failed.retry_after
        self.pauses += 1
        return pause if pause <= LONGEST_PAUSE_S and pause < left else None
