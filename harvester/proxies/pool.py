"""The proxies for one tier at one site: the ones that are alive, and the next one. Uses scrapy-rotating-proxies.

Its middlewares are not used. They judge a proxy by the status, so that a 404 kills it. They make the proxy's host the
download slot, which breaks the politeness towards the site. They retry at once, past the frontier.
"""

import time
from collections.abc import Collection, Iterable
from functools import partial
from hashlib import blake2s
from typing import Any

from harvester.exceptions import UsageError
from harvester.proxies.accounts import Proxy

FIRST_REST_S = 30.0
"""Seconds that a dead proxy rests at most before its first retry; doubled for each further failure."""
LONGEST_REST_S = 3600.0


class ProxyPool:
    """The proxies of a tier: alive, at rest or refused. A rest ends by itself, a refusal only by a person."""

    def __init__(self, proxies: Iterable[Proxy], refused: Collection[str]) -> None:
        self._proxies = {proxy.name: proxy for proxy in proxies}
        self._refused = refused
        """Names of proxies that refuse our credentials, from all pools."""
        self._health = _health(self._proxies)

    def pick(self, session: str = "", *, strict: bool = False) -> Proxy | None:
        """Returns a proxy that is alive, or None.

        A session gets the same proxy while that is alive, and then another one, or None with `strict`.
        """
        self._health.reanimate()
        if session:
            order = sorted(self._proxies, key=lambda name: blake2s(f"{session} {name}".encode()).digest())
            candidates = order[:1] if strict else order
            return next((self._proxies[name] for name in candidates if self._lives(name)), None)
        for name in self._refused:
            self._health.unchecked.discard(name)
            self._health.good.discard(name)
        name = self._health.get_random()
        return self._proxies[name] if name else None

    def bad(self, name: str) -> None:
        """Lets a useless proxy rest. Further failures of concurrent requests change nothing."""
        if name not in self._health.dead:
            self._health.mark_dead(name)

    def good(self, name: str) -> None:
        """Records that the proxy carried a response."""
        if name not in self._health.good:
            self._health.mark_good(name)

    def has_other(self, name: str) -> bool:
        """Returns True if another proxy is alive."""
        return any(other != name and self._lives(other) for other in self._proxies)

    def rest_s(self) -> float:
        """Returns the seconds until a proxy's rest ends, for the first one."""
        ends = [self._health.proxies[name].next_check for name in self._health.dead if name not in self._refused]
        return max(0.0, min(ends, default=0.0) - time.time())

    @property
    def is_refused(self) -> bool:
        """True if all proxies refuse our credentials."""
        return self._proxies.keys() <= set(self._refused)

    def counts(self) -> tuple[int, int]:
        """Returns the number of proxies that are alive, and of all proxies."""
        gone = self._health.dead.union(name for name in self._refused if name in self._proxies)
        return len(self._proxies) - len(gone), len(self._proxies)

    def _lives(self, name: str) -> bool:
        return name not in self._health.dead and name not in self._refused


def _health(names: Iterable[str]) -> Any:
    """Returns a rotating_proxies.expire.Proxies. Raises UsageError where it is not installed."""
    try:
        from rotating_proxies.expire import Proxies, exp_backoff_full_jitter  # an optional extra
    except ImportError:
        raise UsageError("Proxies need the extra `proxies`: uv pip install 'harvester[proxies]'.") from None
    return Proxies(names, backoff=partial(exp_backoff_full_jitter, base=FIRST_REST_S, cap=LONGEST_REST_S))
