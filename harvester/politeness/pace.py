"""The current pace of a site: the configured interval, and all that slows it down. Pure: no clock, no traffic."""

from collections import deque
from collections.abc import Iterable
from math import inf
from statistics import median

from harvester.parsers.web.rate_limits import ReportedQuota
from harvester.sites.politeness import Limits

LONGEST_PACE_S = 60.0
"""Seconds between two requests, at most, for anything that a site asks for; a site that wants more is paused
instead."""
HEADROOM = 5
"""Requests left in a window. Below this number the site is paused for the rest of the window."""
FEW = 0.5
"""Share of a window's requests. Below this share, the rest is spread evenly over the rest of the window."""
POLICY_KEPT_S = 60.0
"""Seconds that a policy slows requests after the last response with it, at least. A longer window counts longer."""


class Slowdown:
    """The factor that slows the requests to a site, derived from its response times.

    The baseline is near the fastest times of a healthy site: each response moves it a little, and ten times as far down
    as up. The baseline is compared with a median, so that single slow responses change nothing.
    """

    RECENT = 9
    """Number of responses whose median is compared with the baseline."""
    LEAST_S = 0.1
    """Seconds of a response that count as fastest: a shorter time changes nothing."""
    SEVERAL = 3.0
    """Multiple of the baseline above which requests are slowed."""
    MOST = 8.0
    """Maximum factor."""
    UP, DOWN = 1.005, 0.95
    WORSE, BETTER = 1.5, 1 / 1.2
    """Changes of the second factor by a failure and by a response. It falls while fewer than 3 of 10 responses are
    failures."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=self.RECENT)
        self._baseline_s = 0.0
        """0 while it is unknown."""
        self._slower = self._failing = 1.0

    def answered(self, latency_s: float) -> None:
        """Counts a good response, and the seconds that it took."""
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
        """Counts a server error, or a response that did not come in time."""
        self._failing = min(self.MOST, self._failing * self.WORSE)

    @property
    def factor(self) -> float:
        """Returns the factor, from 1 to MOST."""
        return min(self.MOST, self._slower * self._failing)


class Pace:
    """The pace of a site. Times are seconds of any one clock."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.slowdown = Slowdown()
        self.crawl_delay_s = 0.0
        self._policy_s = self._policy_until = 0.0
        self._spread_s = self._spread_until = 0.0

    def limits_at(self, now: float) -> Limits:
        """Returns the current limits. The interval is never shorter than the configured one."""
        configured = self.limits.interval_s
        policy_s = self._policy_s if self._policy_until > now else 0.0
        spread_s = self._spread_s if self._spread_until > now else 0.0
        usual = max(configured, self.crawl_delay_s, policy_s, spread_s)
        interval_s = max(usual, min(usual * self.slowdown.factor, LONGEST_PACE_S))
        return self.limits if interval_s == configured else self.limits._replace(interval_s=interval_s)

    def is_slowed(self, now: float) -> bool:
        """Returns True if something slows the site down now."""
        return self.limits_at(now) is not self.limits

    def heed(self, quotas: Iterable[ReportedQuota], now: float) -> float:
        """Applies the quotas of a response. Returns the seconds to pause the site, or 0."""
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
    """Returns the units that are left unused, because several requests are under way when the quota is read."""
    if quota.unit == "concurrent-requests":
        return -inf
    return HEADROOM if quota.most is None else min(HEADROOM, quota.most / 10)


def _spread(quota: ReportedQuota) -> float:
    """Returns the seconds between requests that make the rest last until the reset; 0 when enough is left."""
    if quota.left is None or not quota.ends_in_s or (quota.most is not None and quota.left > FEW * quota.most):
        return 0.0
    return quota.ends_in_s / max(1.0, quota.left - _headroom(quota))
