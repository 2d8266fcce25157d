"""What stands in a street of small sites, and what their pages tell: known without asking them."""

import zlib
from typing import Any

import msgspec

USER, PASSWORD = "harvester", "street-secret"
"""Of every login in the street."""

DIALECTS = (
    "retry_after",
    "retry_date",
    "draft11",
    "draft06",
    "bluesky",
    "github",
    "mastodon",
    "reddit",
    "bare",
    "unavailable",
)
"""How the limited sites tell their limit; street_limits.py says what each sends."""
REFUSALS = ("403", "challenge", "429", "503", "maintenance", "reset", "refuse")
"""How a site says no. `reset` accepts a connection and breaks it off, `refuse` does not listen."""

TAKES_S = 0.5
"""A page of the whole street: so long that what a busy machine adds does not look as if the site tired."""


class HousePlan(msgspec.Struct, frozen=True):
    """One site."""

    name: str
    kind: str = "well"
    """A key of street.HOUSES."""
    scheme: str = "http"
    """`http`; `https` with HTTP/1.1; `h2`: https that speaks HTTP/2 only."""
    pages: int = 400
    seed: int = 1
    robots: str = "User-agent: *\nAllow: /\n"
    delay_s: float = 0.0
    """Until it answers."""
    refusal: str = ""
    """One of REFUSALS, of the kinds `blocking`, `down` and `flapping`."""
    after: int = 0
    """Pages that it gives before the refusal begins, of the kinds `blocking` and `down`."""
    for_s: float = 0.0
    """How long it refuses; 0: until it is told otherwise. Of the kind `flapping`: each time."""
    least: int = 0
    """Refusals without which the time does not end, of the kinds `blocking` and `down`; `refuse` counts none.

    A client may repeat by itself what is broken off, so that `reset` needs more.
    """
    dialect: str = ""
    """One of DIALECTS, of the kind `limited`."""
    limit: int = 20
    """Requests in a window, of the kind `limited`."""
    window_s: int = 5
    lives: int = 50
    """Pages that a login is good for, of the kinds `form` and `token`."""


class Record(msgspec.Struct, frozen=True):
    """What a page tells of one thing."""

    id: str
    value: int


class Page(msgspec.Struct, frozen=True):
    """A page of any site."""

    site: str
    page: int
    records: list[Record]
    links: list[str]
    """Paths of other pages of the same site."""


def page_of(plan: HousePlan, number: int) -> Page:
    """What a page tells; always the same."""
    count = 1 + _roll(plan, "records", number) % 3
    records = [Record(f"{plan.name}/{number}/{part}", _roll(plan, f"value {part}", number)) for part in range(count)]
    links = [f"/page/{child}" for child in (2 * number + 1, 2 * number + 2) if child < plan.pages]
    return Page(plan.name, number, records, links)


def whole_street(pages: int = 400, seed: int = 1) -> list[HousePlan]:
    """50 sites: 10 limited (one a dialect), 5 blocking, 5 down for a while, 5 flapping, 5 with logins, 20 well."""
    common: dict[str, Any] = {"pages": pages, "seed": seed, "delay_s": TAKES_S}
    third = max(1, pages // 3)
    return [
        *(HousePlan(f"limited-{dialect}", "limited", dialect=dialect, window_s=12, **common) for dialect in DIALECTS),
        *(
            HousePlan(f"blocking-{number}", "blocking", refusal=refusal, after=third, for_s=6.0, least=7, **common)
            for number, refusal in enumerate(("403", "challenge", "403", "challenge", "403"))
        ),
        *(
            HousePlan(f"down-{number}", "down", refusal=refusal, after=third, for_s=5.0, least=least, **common)
            for number, (refusal, least) in enumerate(
                (("refuse", 0), ("reset", 14), ("503", 7), ("maintenance", 7), ("503", 7))
            )
        ),
        *(
            HousePlan(f"flapping-{number}", "flapping", refusal=refusal, for_s=1.0, **common)
            for number, refusal in enumerate(("503", "reset", "503", "reset", "503"))
        ),
        *(
            HousePlan(f"login-{number}", kind, lives=max(25, pages // 3), **common)
            for number, kind in enumerate(("form", "token", "form", "token", "form"))
        ),
        *(HousePlan(f"well-{number:02}", **common) for number in range(20)),
    ]


def roll(seed: int, what: str, number: int) -> int:
    """A number that is always the same, as good as chance."""
    return zlib.crc32(b"%d %s %d" % (seed, what.encode(), number))


def _roll(plan: HousePlan, what: str, number: int) -> int:
    return roll(plan.seed, f"{plan.name} {what}", number)
