"""The outcome of a request, and the verdict with the evidence for it."""

from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """The outcome of a request."""

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
    NOT_STORED = "not_stored"
    INVALID = "invalid"
    LOCAL = "local"
    """A fault of the machine that this program runs on.

    Such a try does not count, since it shows nothing about the site.
    """


MOST_TOLD = 120
"""Maximum number of characters of the excerpt that a dead letter shows."""


class Verdict(NamedTuple):
    """An outcome and the evidence for it."""

    outcome: Outcome
    reason: str = ""
    """A few words that explain the outcome to a person."""
    known: bool = True
    """False if no rule knew the failure."""
    rule: str = ""
    """Name of the rule that decided; empty for ok."""
    status: int = 0
    """HTTP status; 0 without a response."""
    excerpt: str = ""
    """Beginning of the response as text, at most 300 characters."""

    def told(self) -> str:
        """Returns reason, rule and a short excerpt in one line, as a dead letter shows them."""
        rule = f" [{self.rule}]" if self.rule else ""
        excerpt = self.excerpt[:MOST_TOLD]
        return f"{self.reason}{rule}" + (f" {excerpt}" if excerpt and excerpt not in self.reason else "")


OK = Verdict(Outcome.OK)
