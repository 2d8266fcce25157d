"""The health of an identity: refusals lower it, good responses and time raise it, and at the floor it rests."""

from harvester.outcomes import Outcome, get_policy

FLOOR = 0.3
"""Health below which an identity rests."""
AFTER_REST = 0.5
"""Health after a rest."""
HEALING_S = 1800.0
"""Seconds until half of the missing health has returned by itself."""
GOOD = 0.05
"""Share of the missing health that a good response restores."""
REST_S = 60.0
"""Seconds of the first rest; doubled for each further one until the identity is well again, at most MOST_REST_S."""
MOST_REST_S = 3600.0
WELL = 0.9
"""Health above which earlier rests are forgotten."""


class IdentityHealth:
    """The health of an identity; 1.0 is perfect. Times are epoch seconds, because health is saved between runs."""

    def __init__(self, level: float = 1.0, at: float = 0.0, rests: int = 0, rest_until: float = 0.0) -> None:
        self._level = level
        self._at = at
        self.rests = rests
        """Rests in a row."""
        self.rest_until = rest_until

    def wake(self, now: float) -> None:
        """Ends a rest that is longer than any rest can be: a wrong clock started it."""
        if self.rest_until > now + MOST_REST_S:
            self.rest_until = now
            self._set(AFTER_REST, now)

    def level(self, now: float) -> float:
        """Returns the current health."""
        left: float = 0.5 ** (max(0.0, now - self._at) / HEALING_S)
        return 1.0 - (1.0 - self._level) * left

    def good(self, now: float) -> None:
        """Raises the health after a good response."""
        if self._level < 1.0:
            self._set(1.0 - (1.0 - self.level(now)) * (1.0 - GOOD), now)
            if self._level >= WELL:
                self.rests = 0

    def bad(self, outcome: Outcome, now: float) -> float:
        """Lowers the health after a refusal. Returns the seconds of the rest that begins with it, mostly 0."""
        if now < self.rest_until:
            return 0.0  # the response to an earlier request
        self._set(self.level(now) - get_policy(outcome).session_cost, now)
        if self._level >= FLOOR:
            return 0.0
        rest_s = min(REST_S * 2.0 ** min(self.rests, 10), MOST_REST_S)
        self.rests += 1
        self.rest_until = now + rest_s
        self._set(AFTER_REST, self.rest_until)
        return rest_s

    def _set(self, level: float, at: float) -> None:
        self._level, self._at = level, at

    def kept(self) -> tuple[float, float, int, float]:
        """Returns the arguments that restore this health."""
        return self._level, self._at, self.rests, self.rest_until
