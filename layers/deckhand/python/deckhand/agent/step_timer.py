"""When the silence of a gateway, one step or the turn has lasted too long."""

from collections.abc import Callable

from deckhand.agent.chat import DeadlineReached, StepIdle, StepLimits
from deckhand.domain.errors import GatewayError, GatewayTimeout

# A gateway may send comments while its model is busy; after this many idle times without an event the wait ends.
EVENTLESS_IDLES = 2


class StepTimer:
    """Seconds. Silence counts from the last `heard`; comments break it, but only events break the longer wait for an
    event (bug case 19).
    """

    def __init__(self, limits: StepLimits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._began = self._event_at = clock()

    def restart(self) -> None:
        """A new try begins: the silence before it does not count, the step's and the turn's time goes on."""
        self._event_at = self._clock()

    def heard(self) -> None:
        """An event of the model came."""
        self._event_at = self._clock()

    def wait(self) -> tuple[float, GatewayError]:
        """How long the next read may last and what it means when it lasts longer."""
        ends: list[tuple[float, GatewayError]] = [(self.left(), self.over())]
        if self._limits.idle is not None:
            eventless = self._event_at + EVENTLESS_IDLES * self._limits.idle - self._clock()
            ends.append((min(self._limits.idle, eventless), StepIdle()))
        return min(ends, key=lambda end: end[0])

    def left(self) -> float:
        """What is left for this step, retries included."""
        gone = self._clock() - self._began
        ceiling, deadline = self._limits.ceiling, self._limits.deadline
        return (ceiling if deadline is None else min(ceiling, deadline)) - gone

    def over(self) -> GatewayError:
        deadline = self._limits.deadline
        return DeadlineReached() if deadline is not None and deadline <= self._limits.ceiling else GatewayTimeout()
