"""How many requests a caller may make in a minute: a window that slides.

Two counters, of this minute and of the one before, stand for the last 60 seconds: the minute before counts by what of
it is still inside them. Two fixed windows would let twice the limit through around the turn of a minute; a list of
instants would be exact, but grows with the limit. Whole seconds throughout, so that sums are exact.
"""

from deckhand.domain.model import Model

MINUTE_S = 60


class Window(Model):
    """`minute` counts from the epoch; `count` are the requests that were let through in it, `before` those of the
    minute before.
    """

    minute: int = 0
    count: int = 0
    before: int = 0

    def at(self, now: float) -> "Window":
        """The same requests as they are seen from `now`, in epoch seconds; a clock that went back changes nothing."""
        passed = int(now) // MINUTE_S - self.minute
        if passed <= 0:
            return self
        return Window(minute=self.minute + passed, before=self.count if passed == 1 else 0)

    def taken(self) -> "Window":
        """With one request more."""
        return self.model_copy(update={"count": self.count + 1})

    def wait(self, now: float, limit: int) -> int:
        """Seconds until one more request fits below `limit` (at least 1), 0 when it fits now. Ask it of `at(now)`."""
        second = min(max(int(now) - self.minute * MINUTE_S, 0), MINUTE_S - 1)
        if self._free_from(limit) <= second:
            return 0
        if self._free_from(limit) < MINUTE_S:
            return self._free_from(limit) - second
        following = Window(before=self.count)
        return MINUTE_S - second + following._free_from(limit)

    def _free_from(self, limit: int) -> int:
        """The first second of the minute in which one more fits; the minute's length when there is none."""
        spare = limit - 1 - self.count
        if spare < 0:
            return MINUTE_S
        if self.before <= spare:
            return 0
        # before * (60 - second) / 60 <= spare
        return MINUTE_S - spare * MINUTE_S // self.before
