"""What became of a request: one enum, one classifier, and one table of what follows from it."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)

from harvester.sites import Site


class Outcome(StrEnum):
    """The fate of one request."""

    OK = "ok"
    UNCHANGED = "unchanged"
    EMPTY = "empty"
    NOT_FOUND = "not_found"
    GONE = "gone"
    RATE_LIMITED = "rate_limited"
    BLOCKED = "blocked"
    CHALLENGE = "challenge"
    AUTH_REQUIRED = "auth_required"
    POLICY_DENIED = "policy_denied"
    MAINTENANCE = "maintenance"
    TIMEOUT = "timeout"
    DNS = "dns"
    NETWORK = "network"
    PROXY = "proxy"
    SERVER_ERROR = "server_error"
    LAYOUT_CHANGED = "layout_changed"
    NAVIGATION_FAILED = "navigation_failed"
    SESSION_EXPIRED = "session_expired"
    TOO_MANY = "too_many"
    INVALID = "invalid"


class Policy(NamedTuple):
    """What follows from an outcome."""

    retries: int
    """How often the request is tried again in this run."""
    backoff_s: float = 0.0
    """Before the first retry; doubled for each one after, jittered."""
    most_backoff_s: float = 60.0
    """The longest backoff."""
    later: bool = False
    """Whether a later run of the same crawl tries again what failed with it."""
    error: bool = True
    """Whether it counts against the run's error ratio."""
    site: bool = False
    """Whether it says something of the whole site: a row of them ends the run of a spider without a frontier."""
    breaker: bool = False
    """Whether it counts against the site's breaker."""
    session: bool = False
    """Whether it counts against the identity that asked."""
    proxy: bool = False
    """Whether it counts against the proxy that carried it."""
    new_identity: bool = False
    """Whether the next try goes out as somebody else."""
    dearer: bool = False
    """Whether the next try may use a dearer tier of proxies."""
    dead: bool = True
    """Whether what is not tried again is a dead letter; else it is done."""


POLICIES: Mapping[Outcome, Policy] = {
    Outcome.OK: Policy(0, error=False, dead=False),
    Outcome.UNCHANGED: Policy(0, error=False, dead=False),
    Outcome.EMPTY: Policy(0, error=False, dead=False),
    Outcome.NOT_FOUND: Policy(0, error=False, dead=False),
    Outcome.GONE: Policy(0, error=False, dead=False),
    # The throttle waits as long as the site says; the backoff is for a site that does not say.
    Outcome.RATE_LIMITED: Policy(12, backoff_s=5.0, later=True, site=True, session=True),
    Outcome.BLOCKED: Policy(
        0, later=True, site=True, breaker=True, session=True, proxy=True, new_identity=True, dearer=True
    ),
    # A refusal is never answered with another proxy.
    Outcome.CHALLENGE: Policy(0, later=True, site=True, breaker=True, session=True),
    Outcome.AUTH_REQUIRED: Policy(0, later=True, breaker=True, session=True),
    Outcome.POLICY_DENIED: Policy(0),
    Outcome.MAINTENANCE: Policy(3, backoff_s=20.0, later=True, site=True, breaker=True),
    Outcome.TIMEOUT: Policy(4, backoff_s=2.0, later=True, site=True, breaker=True, proxy=True),
    Outcome.DNS: Policy(3, backoff_s=2.0, later=True, site=True, breaker=True),
    Outcome.NETWORK: Policy(6, backoff_s=1.0, later=True, site=True, breaker=True, proxy=True),
    Outcome.PROXY: Policy(3, backoff_s=1.0, later=True, proxy=True, dearer=True),
    Outcome.SERVER_ERROR: Policy(5, backoff_s=1.0, later=True, breaker=True),
    Outcome.LAYOUT_CHANGED: Policy(2, backoff_s=1.0, later=True),
    Outcome.NAVIGATION_FAILED: Policy(2, backoff_s=1.0, later=True, breaker=True),
    Outcome.SESSION_EXPIRED: Policy(0, later=True, session=True),
    Outcome.TOO_MANY: Policy(0),
    Outcome.INVALID: Policy(0),
}


def policy_of(site: Site, outcome: Outcome) -> Policy:
    """The row of the table, with what the site's entry says otherwise."""
    return POLICIES[outcome]


class Verdict(NamedTuple):
    """An outcome and what it was told from."""

    outcome: Outcome
    reason: str = ""
    """A few words for the person who asks why."""
    known: bool = True
    """False when no rule knew the failure."""


OK = Verdict(Outcome.OK)

_GONE = {"AccountTakedown", "AccountDeactivated", "RepoTakendown", "RepoSuspended", "RepoDeactivated"}
_NOT_FOUND = {"NotFound", "RepoNotFound", "RecordNotFound", "BlobNotFound", "HandleNotFound", "ActorNotFound"}
_UNKNOWN_CALL = {"MethodNotImplemented", "XRPCNotSupported"}
_ABSENT = re.compile(
    r"Profile not found|Actor not found|Post not found|Could not find repo|Could not locate record|"
    r"Blob not found|Unable to resolve handle|List not found",
    re.IGNORECASE,
).search
_BAD_CURSOR = re.compile(r"(malformed|invalid) cursor", re.IGNORECASE).search
_CHALLENGE = re.compile(rb"Just a moment\.\.\.|cf-chl-|Attention Required!").search

_SSL = re.compile(r" ssl:(default|True|False|None|<[^>]*>) ").sub
"""What aiohttp puts into its messages, of no use to anyone."""

BAD_CURSOR = "bad cursor"
"""Reason of a refused cursor: the chain must begin anew."""


def classify_answer(status: int, body: bytes, error: tuple[str, str] | None) -> Verdict:
    """The outcome of an HTTP answer. `error` is name and message of a JSON error body, when it is one."""
    if status == 200 or status == 206:
        return OK
    name, message = error or ("", "")
    said = f"HTTP {status} {name}".strip() + (f": {message}" if message else "")
    if status == 304:
        return Verdict(Outcome.UNCHANGED)
    if status == 429 or name == "RateLimitExceeded":
        return Verdict(Outcome.RATE_LIMITED, said)
    if name in ("ExpiredToken", "InvalidToken"):
        return Verdict(Outcome.SESSION_EXPIRED, said)
    if name in _UNKNOWN_CALL or status in (501, 405):
        return Verdict(Outcome.INVALID, f"{said} (the service does not know this call)")
    if name in _GONE or status == 410:
        return Verdict(Outcome.GONE, name or said)
    if name in _NOT_FOUND or status == 404 or (status == 400 and _ABSENT(message)):
        # Without the name of what is absent, so that the same reason is counted as one.
        return Verdict(Outcome.NOT_FOUND, message.partition(": ")[0] or said)
    if name in ("BlockedActor", "BlockedByActor"):
        return Verdict(Outcome.POLICY_DENIED, name)
    if status == 400 and _BAD_CURSOR(message):
        return Verdict(Outcome.INVALID, BAD_CURSOR)
    if status == 401 or name in ("AuthMissing", "AuthenticationRequired"):
        return Verdict(Outcome.AUTH_REQUIRED, said)
    if status in (403, 503) and _CHALLENGE(body[:5000]):
        return Verdict(Outcome.CHALLENGE, f"HTTP {status} with a challenge page")
    if status == 403:
        return Verdict(Outcome.BLOCKED, said)
    if status == 451:
        return Verdict(Outcome.POLICY_DENIED, said)
    if status == 407:
        return Verdict(Outcome.PROXY, said)
    if status == 408:
        return Verdict(Outcome.TIMEOUT, said)
    if status >= 500:
        return Verdict(Outcome.SERVER_ERROR, said)
    return Verdict(Outcome.INVALID, said, known=status == 400)


def classify_exception(error: BaseException) -> Verdict:
    """The outcome of a request that got no answer."""
    said = _SSL(" ", str(error)).strip() or type(error).__name__
    if isinstance(error, CannotResolveHostError):
        return Verdict(Outcome.DNS, f"the host name cannot be resolved: {said}")
    if isinstance(error, (DownloadTimeoutError, TimeoutError)):
        longer = re.search(r"took longer than ([\d.]+) seconds", said)  # the address before it says nothing new
        return Verdict(Outcome.TIMEOUT, f"no answer in {float(longer[1]):g} seconds" if longer else said)
    if isinstance(error, DownloadConnectionRefusedError):
        return Verdict(Outcome.NETWORK, f"no connection: {said}")
    if isinstance(error, DownloadCancelledError):
        return Verdict(Outcome.INVALID, _too_large(said))
    if isinstance(error, (DownloadFailedError, ResponseDataLossError, OSError)):
        return Verdict(Outcome.NETWORK, "the answer is cut short" if "payload is not completed" in said else said)
    if isinstance(error, UnsupportedURLSchemeError):
        return Verdict(Outcome.INVALID, said)
    if isinstance(error, IgnoreRequest):
        # Scrapy raises the same for these as for what robots.txt forbids.
        if "max redirections" in said:
            return Verdict(Outcome.INVALID, "it redirects again and again")
        if "during decompression" in said:
            return Verdict(Outcome.INVALID, _too_large(said))
        return Verdict(Outcome.POLICY_DENIED, said)
    return Verdict(Outcome.INVALID, f"{type(error).__name__}: {said}", known=False)


def _too_large(said: str) -> str:
    """The limit that an answer was larger than, from what Scrapy says of it: "... (33554432) ..."."""
    limit = re.search(r"\((\d+)(?: B)?\) (?:in request|during)", said)
    size = f"{int(limit[1]) / 2**20:g} MB" if limit else "allowed"
    return f"the answer is larger than {size}"


class RequestFailed(IgnoreRequest):
    """A request that is given up. Raised to the errback by the outcome middleware."""

    def __init__(self, verdict: Verdict, tries: int) -> None:
        super().__init__(verdict.outcome, verdict.reason)
        self.verdict = verdict
        self.tries = tries

    def __str__(self) -> str:
        tried = f" ({self.tries} tries)" if self.tries > 1 else ""
        return f"{self.verdict.outcome}: {self.verdict.reason}{tried}" if self.verdict.reason else self.verdict.outcome


def verdict_of(error: BaseException) -> Verdict:
    """The verdict on a request whose errback was called."""
    return error.verdict if isinstance(error, RequestFailed) else classify_exception(error)
