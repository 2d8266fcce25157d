"""The states of breakers that the frontier returns, and the reports of workers."""

from typing import Any, NamedTuple


class BreakerState(NamedTuple):
    """A breaker as workers know it."""

    state: str
    """closed, open, half_open or held."""
    trial: int
    """Number of half-open trials so far."""
    until: float | None
    """Time when it may change by itself, in epoch seconds of this machine's clock."""


class Reports(NamedTuple):
    """The counts of a worker since its last report. A report that is sent twice counts once."""

    number: int
    """Larger than the number of any earlier report."""
    rows: list[Any]
    """The rows in the form that breaker.lua takes."""


class BreakerChange(NamedTuple):
    """A change of a breaker's state. Times are epoch seconds."""

    id: str
    site: str
    tier: str
    """Tier of proxies; empty for the whole site."""
    before: str
    after: str
    """closed, open, half_open or held."""
    at: float
    cause: str
    """Cause of the opening: refusals, failures, ratio, layout, drift, fields or person."""
    by: str
    """The person who made the change; empty for an automatic change."""
    until: float
    """Time when it may change by itself; 0 if it does not."""
    tried: int
    """Tries in the window before the change."""
    failed: int
    window_s: float
    row: int
    """Failures in a row at the end of the window. If the layout opened the breaker: pages with a wrong layout, minus
    those that correct pages made good."""
    pages: tuple[int, int]
    """The last pages, and the number of empty pages among them."""
    lost: list[tuple[str, str]]
    """Kind of record and name, for all lost fields."""
    said: str
    """The reason of the last failure, or the reason that the person gave."""
    left: int
    """Requests of the site that are parked, or that workers hold."""
    alone_s: float
    """Seconds since the breaker left the closed state."""
    outcomes: dict[str, int]
    """Tries in the window by outcome."""
