"""The fate of one request, and the verdict that says from what it was told."""

from enum import StrEnum
from typing import NamedTuple


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
    NOT_STORED = "not_stored"
    INVALID = "invalid"
    LOCAL = "local"
    """A fault of the machine that this program runs on. Such a try is none: it says nothing of the site."""


MOST_TOLD = 120
"""Characters of the excerpt that a dead letter shows."""


class Verdict(NamedTuple):
    """An outcome and the evidence for it."""

    outcome: Outcome
    reason: str = ""
    """A few words for the person who asks why."""
    known: bool = True
    """False when no rule knew the failure."""
    rule: str = ""
    """Name of the rule that told it; empty for ok."""
    status: int = 0
    """Of HTTP; 0 when there was no answer."""
    excerpt: str = ""
    """How the answer begins, as text; at most 300 characters."""

    def told(self) -> str:
        """Reason, rule and a bit of the answer in one line: what a dead letter shows."""
        rule = f" [{self.rule}]" if self.rule else ""
        excerpt = self.excerpt[:MOST_TOLD]
        return f"{self.reason}{rule}" + (f" {excerpt}" if excerpt and excerpt not in self.reason else "")


OK = Verdict(Outcome.OK)
