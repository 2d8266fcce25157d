"""What became of a request: one enum, one table of what follows from it.

Changing a policy is editing POLICIES. The classifier of responses and exceptions is `classify`.
"""

import json
from dataclasses import dataclass
from enum import StrEnum


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


