"""Breakers as the frontier tells of them, and what workers tell it."""

from typing import Any, NamedTuple


class BreakerState(NamedTuple):
    """A breaker as workers know it."""

    state: str
    """closed, open, half_open or held."""
    trial: int
    """How often it was half open."""
    until: float | None
    """When it may change by itself, in epoch seconds of this machine's clock."""


class Reports(NamedTuple):
    """What a worker saw of sites since it last told. Sent twice it counts once."""

    number: int
    """Larger than that of the reports before."""
    rows: list[Any]
    """As breaker.lua takes them."""


class BreakerChange(NamedTuple):
    """A breaker came into another state. Times in epoch seconds."""

    id: str
    site: str
    tier: str
    """Of proxies; empty: the whole site."""
    before: str
    after: str
    """closed, open, half_open or held."""
    at: float
    cause: str
    """Of the opening: refusals, failures, ratio, layout, drift, fields or person."""
    by: str
    """The person who changed it; empty when nobody did."""
    until: float
    """When it may change by itself; 0: it does not."""
    tried: int
    """In the window before."""
    failed: int
    window_s: float
    row: int
    """Failures in a row at the end of it. If it opened for the layout: pages that were misread, less what others made
    good."""
    pages: tuple[int, int]
    """How many of the last pages were read, and how many of them had nothing in them."""
    lost: list[tuple[str, str]]
    """Kind of record and field, of fields that were lost."""
    said: str
    """Why the last failure failed, or why the person wanted it."""
    left: int
    """Requests of the site that are parked then, or that workers hold."""
    alone_s: float
    """For how long the site had been left alone."""
    outcomes: dict[str, int]
    """How often each in the window."""
