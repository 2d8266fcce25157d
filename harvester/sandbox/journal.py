"""Records the requests that the site received."""

import time
from collections import Counter, deque
from typing import Any, NamedTuple


class JournalEntry(NamedTuple):
    """A finished request. The status is 0 when the connection was cut."""

    time: float
    method: str
    path: str
    status: int
    actor: str | None
    authorized: bool
    """True if the request had a token."""


class Journal:
    """Counts by endpoint and status, the last requests, and the most requests in flight at once."""

    def __init__(self, size: int = 20_000) -> None:
        self.entries: deque[JournalEntry] = deque(maxlen=size)
        self.counts: Counter[str] = Counter()
        self.in_flight: Counter[str] = Counter()
        self.most_in_flight: Counter[str] = Counter()
        self.total = 0

    def begin(self, endpoint: str) -> float:
        self.in_flight[endpoint] += 1
        if self.in_flight[endpoint] > self.most_in_flight[endpoint]:
            self.most_in_flight[endpoint] = self.in_flight[endpoint]
        return time.time()

    def end(self, endpoint: str, entry: JournalEntry) -> None:
        self.in_flight[endpoint] -= 1
        self.total += 1
        self.counts[f"{endpoint} {entry.status}"] += 1
        self.entries.append(entry)

    def report(self, last: int | None = None) -> dict[str, Any]:
        entries = list(self.entries)
        return {
            "total": self.total,
            "counts": dict(self.counts),
            "max_concurrency": dict(self.most_in_flight),
            "requests": [entry._asdict() for entry in (entries if last is None else entries[-last:] if last else [])],
        }


def endpoint_of(path: str) -> str:
    """Returns the part of a path that its requests are counted under."""
    if path.startswith("/xrpc/"):
        return path[6:]
    if path.startswith("/did:"):
        return "/did"
    return "/".join(path.split("/")[:3])
