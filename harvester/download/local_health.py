"""Separates faults of this machine from faults of sites, and pauses the crawl while the machine is degraded.

Some errors of the system have no other cause: no file, memory or port is left. When connections fail, hosts that have
answered before are tried. If several unrelated ones cannot be reached either, this machine is degraded.
"""

import asyncio
import ipaddress
import logging
import os
import time
from functools import lru_cache
from typing import NamedTuple

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.url import add_http_if_no_scheme
from tldextract import TLDExtract

from harvester.components import get_component
from harvester.download import dns
from harvester.exceptions import LocalFault
from harvester.internal_meta import LOCAL_ATTEMPTS
from harvester.outcomes import Outcome, classify_exception, get_policy
from harvester.shutdown import RunEnding, pause
from harvester.stores import outage
from harvester.stores.descriptors import allowed

logger = logging.getLogger(__name__)

UNRELATED = 3
"""Number of registered domains whose hosts must fail before this machine counts as degraded; fewer prove nothing."""
FIRST_PAUSE_S = 1.0
"""Seconds of the first pause; doubled for each further one, until the machine was healthy for WELL_S."""
MOST_PAUSE_S = 60.0
WELL_S = 30.0
TRUST_S = 0.25
"""Seconds that a test of the network counts, so that many failures cause few tests."""
RECENT_S = 60.0
"""Seconds that the failure of a host without any response counts."""
REACH_S = 2.0
"""Seconds that a host has to accept a connection in a test."""
MOST_PEERS = 64
MOST_DOUBTS = 3
"""Local tries of a request in a run without any response; then its own outcome counts."""
FREE_FILES = 8
"""Number of files that a healthy machine must be able to open."""
SICK = "this machine"
"""Name of the outage that the crawl waits for."""
_ONE_WAY = ("no-network", "not-allowed", "no-ports")
"""Rules of faults that may concern the route to a single host only."""
_ADVICE = {
    "too-many-files": "raise `ulimit -n` ({files} now) or lower CONCURRENT_REQUESTS",
    "no-memory": "give it memory, or lower CONCURRENT_REQUESTS",
    "no-threads": "raise `ulimit -u`, or the limit of processes of its container",
    "no-ports": "raise the range of local ports, or lower CONCURRENT_REQUESTS",
    "not-allowed": "look at the rules of its firewall",
}
_NETWORK_ADVICE = "look at its network, name servers and firewall"

domains = TLDExtract(suffix_list_urls=(), include_psl_private_domains=True, cache_dir=None)
"""Finds the registered domain of a host in the list of the package, and never fetches a list."""


class _Peer:
    """The last contact with a host. Times are monotonic; 0 for never."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.address = ""
        """The address that it answered from."""
        self.answered_at = self.failed_at = 0.0


class _Fault(NamedTuple):
    rule: str
    outcome: Outcome


class LocalHealth:
    """The state of this machine for one crawler."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._factor = crawler.settings.getfloat("HARVESTER_BACKOFF_FACTOR", 1.0)
        self._peers: dict[str, _Peer] = {}
        """Peers by registered domain; the latest request's peer is the last."""
        self._answered_at = self._began_at = 0.0
        self._ended_at = -WELL_S
        self._pause_s = FIRST_PAUSE_S
        self._looking = asyncio.Lock()
        self._found = {True: (True, -TRUST_S), False: (True, -TRUST_S)}
        """The last test's result and time, for look-ups (True) and for connections (False)."""
        self._recovering: asyncio.Task[None] | None = None
        self.until = 0.0
        """Time of the next test, in epoch seconds."""
        self.reason = ""
        """The fault."""

    @property
    def is_sick(self) -> bool:
        return self._recovering is not None

    def asks(self, request: Request) -> float:
        """Must be called before a request leaves. Returns the monotonic time of the call, in seconds.

        Raises LocalFault while the machine is degraded.
        """
        if self.is_sick:
            raise LocalFault(self.reason)
        self._peer(request)
        return time.monotonic()

    def answered(self, request: Request, response: Response) -> None:
        peer = self._peer(request)
        peer.answered_at = self._answered_at = time.monotonic()
        if response.ip_address is not None:
            peer.address = str(response.ip_address)

    async def failed(self, request: Request, error: Exception, left_at: float) -> LocalFault | None:
        """Returns the fault of this machine that failed the request. None without such a fault, or without a proof.

        A request that left before the machine recovered failed for this machine, even if it fails later.
        """
        verdict = classify_exception(error)
        peer = self._peer(request)
        if verdict.outcome is Outcome.LOCAL:
            counts = verdict.rule != "too-many-files" and self._counts()
            if verdict.rule in _ONE_WAY and await self._reaches(Outcome.NETWORK, self._known(peer)):
                return LocalFault(verdict.reason, counts=True)
            return self._begin(_Fault(verdict.rule, verdict.outcome), verdict.reason, counts)
        if not get_policy(verdict.outcome).no_answer:
            return None
        peer.failed_at = time.monotonic()
        if self._was_sick(left_at):
            return LocalFault(self.reason)
        known, silent = self._known(peer), self._silent(peer)
        if 1 + len(known) + len(silent) < UNRELATED:
            return None
        if not known and not waits_out_faults(self._crawler):  # else it would wait for hosts that may not exist
            return None
        is_reached = await self._reaches(verdict.outcome, known)
        if self._was_sick(left_at):
            return LocalFault(self.reason)
        if is_reached:
            return None
        if not self._answered_at and request.meta.get(LOCAL_ATTEMPTS, 0) >= MOST_DOUBTS:
            return None
        names = ", ".join(each.host for each in (peer, *known, *silent)[:UNRELATED])
        reason = f"no host can be reached from this machine, of unrelated ones: {names}"
        return self._begin(_Fault("alone", verdict.outcome), reason, not self._answered_at)

    def close(self) -> None:
        if self._recovering:
            self._recovering.cancel()

    # The pause --------------------------------------------------------------------------------------------

    def _was_sick(self, left_at: float) -> bool:
        return self.is_sick or left_at < self._ended_at

    def _counts(self) -> bool:
        """Returns True if other requests succeed, so that a failing one must end some day."""
        return not self._answered_at or self._answered_at > self._began_at

    def _begin(self, fault: _Fault, reason: str, counts: bool) -> LocalFault:
        self._crawler.stats.inc_value(f"harvester/local/{fault.rule}")
        if not self.is_sick:
            now = time.monotonic()
            if now - self._ended_at > WELL_S:
                self._pause_s = FIRST_PAUSE_S
            self._began_at, self.reason = now, reason
            advice = _ADVICE.get(fault.rule, _NETWORK_ADVICE).format(files=allowed())
            logger.warning("%s; the crawl pauses, and no site is blamed. To mend it: %s", _sentence(reason), advice)
            outage.hold(self._crawler, SICK)
            self._recovering = asyncio.create_task(self._recover(fault))
        return LocalFault(reason, counts=counts)

    async def _recover(self, fault: _Fault) -> None:
        try:
            while True:
                self.until = time.time() + self._pause_s * self._factor
                wait_s, self._pause_s = self._pause_s * self._factor, min(2 * self._pause_s, MOST_PAUSE_S)
                await pause(self._crawler, wait_s)
                if await self._is_well(fault):
                    logger.info("This machine is tried again; the crawl goes on")
                    break
        except RunEnding:
            pass  # the waiting requests notice the end of the run themselves
        finally:
            self._recovering, self._ended_at = None, time.monotonic()
            outage.let_go(self._crawler, SICK)

    async def _is_well(self, fault: _Fault) -> bool:
        """Returns True if the machine is healthy. If only a request can show it, returns True, and one request is the
        test."""
        if fault.rule == "too-many-files":
            return _files_are_free()
        if fault.rule == "alone":
            known = self._known(None)
            return not known or await self._reaches(fault.outcome, known)
        return True

    # Other hosts ------------------------------------------------------------------------------------------

    def _peer(self, request: Request) -> _Peer:
        """Returns the host that the request is sent to: the proxy's, if it has one."""
        proxy = request.meta.get("proxy")
        parts = urlparse_cached(Request(add_http_if_no_scheme(proxy)) if proxy else request)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        domain = domain_of(host)
        peer = self._peers.pop(domain, None)
        if peer is None or not peer.answered_at:
            peer, before = _Peer(host, port), peer
            peer.failed_at = before.failed_at if before else 0.0
        self._peers[domain] = peer
        while len(self._peers) > MOST_PEERS:
            del self._peers[next(iter(self._peers))]
        return peer

    def _known(self, but: _Peer | None) -> list[_Peer]:
        """Returns other hosts that answered, the latest first. A host on this machine proves nothing about its
        network."""
        others = [peer for peer in self._peers.values() if peer is not but and peer.answered_at]
        if but is None or not _is_loopback(but.host):
            others = [peer for peer in others if but is None or not _is_loopback(peer.address or peer.host)]
        return sorted(others, key=lambda peer: -peer.answered_at)[:UNRELATED]

    def _silent(self, but: _Peer) -> list[_Peer]:
        """Returns other hosts that failed lately and never answered."""
        since = time.monotonic() - RECENT_S
        return [
            each for each in self._peers.values() if each is not but and not each.answered_at and each.failed_at > since
        ]

    async def _reaches(self, outcome: Outcome, peers: list[_Peer]) -> bool:
        """Returns True if a known host can be reached: by a look-up for the outcome dns, else by a connection."""
        by_name = outcome is Outcome.DNS
        async with self._looking:
            found, at = self._found[by_name]
            if at > time.monotonic() - TRUST_S:
                return found
            found = False
            for peer in peers:
                if by_name:
                    found = _literal(peer.host) is None and await dns.knows(peer.host, REACH_S)
                else:
                    found = await _connects(peer)
                if found:
                    break
            self._found[by_name] = found, time.monotonic()
            return found


def waits_out_faults(crawler: Crawler) -> bool:
    """Returns True if the crawler's spider waits for unreachable hosts. Harvester's spiders do, Scrapy's do not."""
    return bool(getattr(crawler.spider, "WAITS_OUT_FAULTS", False))


def here_of(crawler: Crawler) -> LocalHealth:
    """Returns the crawler's LocalHealth."""
    return get_component(crawler, LocalHealth, lambda: LocalHealth(crawler))


@lru_cache(maxsize=10_000)
def domain_of(host: str) -> str:
    """Returns the owner of a host: its registered domain, or its address."""
    if _literal(host) is not None:
        return host
    found = domains(host)
    return f"{found.domain}.{found.suffix}" if found.suffix else ".".join(host.split(".")[-2:])


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _literal(host)
    return host == "localhost" if address is None else address.is_loopback


async def _connects(peer: _Peer) -> bool:
    """Connects only to the address that answered, because another one may not be permitted."""
    try:
        async with asyncio.timeout(REACH_S):
            _, writer = await asyncio.open_connection(peer.address or peer.host, peer.port)
    except OSError:
        return False
    writer.close()
    return True


def _files_are_free() -> bool:
    opened: list[int] = []
    try:
        for _ in range(FREE_FILES):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    finally:
        for each in opened:
            os.close(each)
    return True


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
