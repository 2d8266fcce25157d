"""How fast one site is asked now: what is configured, and all that slows it down. Pure: no clock, no traffic."""

from collections import deque
from collections.abc import Iterable
from math import inf
from statistics import median

from harvester.parsers.web.rate_limits import ReportedQuota
from harvester.sites.politeness import Limits

LONGEST_PACE_S = 60.0
"""The most that is put between two requests for what a site says; when it wants more, it is left alone instead."""
HEADROOM = 5
"""Requests left in a window below which the rest of the window is waited for."""
FEW = 0.5
"""The share of a window below which what is left of it is spread over its rest."""
POLICY_KEPT_S = 60.0
"""How long a policy slows down after the last answer that told of it, at least; a longer window does so longer."""


class Slowdown:
    """How many times slower than usual a site should be asked, by how long it takes to answer.

    The usual is near the quickest that it answers when it is well: each answer moves the baseline a little, down ten
    times as far as up. What it is compared with is a median, so that single slow answers count nothing.
    """

    RECENT = 9
    """Answers whose median is compared with the baseline."""
    LEAST_S = 0.1
    """What is quicker is as good."""
    SEVERAL = 3.0
    """Times the baseline from which on requests are slowed."""
    MOST = 8.0
    """The most times that requests are slowed."""
    UP, DOWN = 1.005, 0.95
    WORSE, BETTER = 1.5, 1 / 1.2
    """What a failure and an answer do to the second factor. It falls while fewer than 3 of 10 answers are failures."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=self.RECENT)
        self._baseline_s = 0.0
        """0: not known yet."""
        self._slower = self._failing = 1.0

    def answered(self, latency_s: float) -> None:
        """A good answer, and how long the site took for it."""
        latency_s = max(latency_s, self.LEAST_S)
        self._recent.append(latency_s)
        self._failing = max(1.0, self._failing * self.BETTER)
        if self._baseline_s:
            self._baseline_s *= self.UP if latency_s > self._baseline_s else self.DOWN
            self._baseline_s = max(self._baseline_s, self.LEAST_S)
            ratio = median(self._recent) / self._baseline_s
            self._slower = ratio / self.SEVERAL * 2 if ratio >= self.SEVERAL else 1.0
        elif len(self._recent) == self.RECENT:
            self._baseline_s = median(self._recent)

    def failed(self) -> None:
        """A server error, or no answer in time."""
        self._failing = min(self.MOST, self._failing * self.WORSE)

    @property
    def factor(self) -> float:
        """From 1 to MOST."""
        return min(self.MOST, self._slower * self._failing)


class Pace:
    """One site's. Times are seconds of any one clock."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.slowdown = Slowdown()
        self.crawl_delay_s = 0.0
        self._policy_s = self._policy_until = 0.0
        self._spread_s = self._spread_until = 0.0

    def limits_at(self, now: float) -> Limits:
        """What holds now. The interval is never less than what is configured."""
        configured = self.limits.interval_s
        policy_s = self._policy_s if self._policy_until > now else 0.0
        spread_s = self._spread_s if self._spread_until > now else 0.0
        usual = max(configured, self.crawl_delay_s, policy_s, spread_s)
        interval_s = max(usual, min(usual * self.slowdown.factor, LONGEST_PACE_S))
        return self.limits if interval_s == configured else self.limits._replace(interval_s=interval_s)

    def is_slowed(self, now: float) -> bool:
        """Whether there is something to remember."""
        return self.limits_at(now) is not self.limits

    def heed(self, quotas: Iterable[ReportedQuota], now: float) -> float:
        """Takes in what an answer tells of its quotas. Returns how long the site wants to be left alone, or 0."""
        wait_s = policy_s = kept_s = spread_s = spread_until = 0.0
        counted = False
        for quota in quotas:
            counted |= quota.left is not None
            if quota.left is not None and quota.left <= _headroom(quota):
                wait_s = max(wait_s, quota.ends_in_s or 0.0)
            if quota.unit != "requests":
                continue
            if quota.most and quota.window_s:
                policy_s, kept_s = max(policy_s, quota.window_s / quota.most), max(kept_s, quota.window_s)
            each_s = _spread(quota)
            if each_s > spread_s:
                spread_s, spread_until = each_s, now + (quota.ends_in_s or 0.0)
        if policy_s:
            self._policy_s, self._policy_until = min(policy_s, LONGEST_PACE_S), now + max(kept_s, POLICY_KEPT_S)
        if counted:
            self._spread_s, self._spread_until = min(spread_s, LONGEST_PACE_S), spread_until
        return wait_s


def _headroom(quota: ReportedQuota) -> float:
    """How many units are left unused. Without them, several requests that are under way would be too many."""
    if quota.unit == "concurrent-requests":
        return -inf
    return HEADROOM if quota.most is None else min(HEADROOM, quota.most / 10)


def _spread(quota: ReportedQuota) -> float:
    """Seconds between requests that make what is left last until the reset; 0 when enough is left."""
    if quota.left is None or not quota.ends_in_s or (quota.most is not None and quota.left > FEW * quota.most):
        return 0.0
    return quota.ends_in_s / max(1.0, quota.left - _headroom(quota))
