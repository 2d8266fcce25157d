"""How well an identity is: refusals wear it down, good answers and time heal it, and it rests when it is worn out."""

from harvester.outcomes import Outcome, get_policy

FLOOR = 0.3
"""An identity whose health falls below it rests."""
AFTER_REST = 0.5
"""Health with which it comes back."""
HEALING_S = 1800.0
"""Time in which half of what is lacking heals by itself."""
GOOD = 0.05
"""The part of what is lacking that a good answer heals."""
REST_S = 60.0
"""The first rest; doubled for each further one until the identity is well again, at most MOST_REST_S."""
MOST_REST_S = 3600.0
WELL = 0.9
"""Health from which earlier rests are forgotten."""


class IdentityHealth:
    """1.0 is perfect. Times are seconds of the epoch, since health is kept between runs."""

    def __init__(self, level: float = 1.0, at: float = 0.0, rests: int = 0, rest_until: float = 0.0) -> None:
        self._level = level
        self._at = at
        self.rests = rests
        """In a row."""
        self.rest_until = rest_until

    def wake(self, now: float) -> None:
        """Ends a rest that is longer than one can be: it began by a clock that was wrong."""
        if self.rest_until > now + MOST_REST_S:
            self.rest_until = now
            self._set(AFTER_REST, now)

    def level(self, now: float) -> float:
        """How well it is now."""
        left: float = 0.5 ** (max(0.0, now - self._at) / HEALING_S)
        return 1.0 - (1.0 - self._level) * left

    def good(self, now: float) -> None:
        """It got an answer."""
        if self._level < 1.0:
            self._set(1.0 - (1.0 - self.level(now)) * (1.0 - GOOD), now)
            if self._level >= WELL:
                self.rests = 0

    def bad(self, outcome: Outcome, now: float) -> float:
        """It was refused. The seconds of the rest that begins with it, mostly 0."""
        if now < self.rest_until:
            return 0.0  # the answer to what was sent before
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
        """The arguments that make it again."""
        return self._level, self._at, self.rests, self.rest_until
