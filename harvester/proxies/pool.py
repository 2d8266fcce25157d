"""The proxies of one tier as one site sees them: which are alive, which is next. By scrapy-rotating-proxies.

Its middlewares are not used. They judge a proxy by the status, so that a 404 kills it; they make the proxy's host the
download slot, which loses the politeness towards the site; and they retry at once, past the frontier.
"""

import time
from collections.abc import Collection, Iterable
from functools import partial
from hashlib import blake2s
from typing import Any

from harvester.exceptions import UsageError
from harvester.proxies.accounts import Proxy

FIRST_REST_S = 30.0
"""How long a dead proxy rests at most before it is tried again; doubled for each time that it is of no use."""
LONGEST_REST_S = 3600.0


class ProxyPool:
    """Proxies that live, rest or are refused. A rest ends by itself; a refusal only by a person."""

    def __init__(self, proxies: Iterable[Proxy], refused: Collection[str]) -> None:
        self._proxies = {proxy.name: proxy for proxy in proxies}
        self._refused = refused
        """Names of proxies that let nobody in, of all pools."""
        self._health = _health(self._proxies)

    def pick(self, session: str = "", *, strict: bool = False) -> Proxy | None:
        """One that lives; None when none does. A session has the same one as long as that lives; strict: or none."""
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
        """It was of no use; it rests. Those who asked it at the same time say nothing new."""
        if name not in self._health.dead:
            self._health.mark_dead(name)

    def good(self, name: str) -> None:
        """It carried an answer."""
        if name not in self._health.good:
            self._health.mark_good(name)

    def has_other(self, name: str) -> bool:
        """Whether another one lives."""
        return any(other != name and self._lives(other) for other in self._proxies)

    def rest_s(self) -> float:
        """Until the first of those that rest is tried again, in seconds."""
        ends = [self._health.proxies[name].next_check for name in self._health.dead if name not in self._refused]
        return max(0.0, min(ends, default=0.0) - time.time())

    @property
    def is_refused(self) -> bool:
        """Whether all of them let nobody in."""
        return self._proxies.keys() <= set(self._refused)

    def counts(self) -> tuple[int, int]:
        """How many live, and of how many."""
        gone = self._health.dead.union(name for name in self._refused if name in self._proxies)
        return len(self._proxies) - len(gone), len(self._proxies)

    def _lives(self, name: str) -> bool:
        return name not in self._health.dead and name not in self._refused


def _health(names: Iterable[str]) -> Any:
    """A rotating_proxies.expire.Proxies. Raises UsageError where it is not installed."""
    try:
        from rotating_proxies.expire import Proxies, exp_backoff_full_jitter  # an extra, not always installed
    except ImportError:
        raise UsageError("Proxies need the extra `proxies`: uv pip install 'harvester[proxies]'.") from None
    return Proxies(names, backoff=partial(exp_backoff_full_jitter, base=FIRST_REST_S, cap=LONGEST_REST_S))
