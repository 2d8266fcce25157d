"""One site of the street: its pages, its log, and the times when it refuses. The other kinds build on it."""

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import msgspec

from tests.sandbox.street_plan import HousePlan, page_of, roll

_encode = msgspec.json.encode

CHALLENGE_PAGE = b"""<!DOCTYPE html><html><head><title>Just a moment...</title></head>
<body><div id="cf-wrapper" class="cf-chl-widget">Enable JavaScript and cookies to continue</div></body></html>"""
BLOCK_PAGE = b"<html><head><title>Access Denied</title></head><body><h1>Access Denied</h1></body></html>"
MAINTENANCE_PAGE = b"<html><body><h1>The site is down for scheduled maintenance.</h1></body></html>"
TOO_MANY_PAGE = b"<html><head><title>429 Too Many Requests</title></head><body><h1>429</h1></body></html>"


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    """With its query."""
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes = b""

    @property
    def cookies(self) -> dict[str, str]:
        pairs = (pair.strip().partition("=") for pair in self.headers.get("cookie", "").split(";"))
        return {name: value for name, _, value in pairs if name}


class Answer(NamedTuple):
    """What is sent."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0
    missing: int = 0
    """Bytes that are announced and never come: the connection is closed instead. Negative: bytes too many."""
    drip_s: float = 0.0
    """Between one byte of the body and the next."""
    abort: bool = False
    """Whether the connection is broken off instead."""
    raw: bytes = b""
    """What is sent instead, before the connection is closed."""
    note: str = ""
    """For the log."""


class Seen(NamedTuple):
    """A line of the log."""

    at: float
    """When the request came, on the machine's monotonic clock."""
    path: str
    status: int
    """0: broken off without an answer."""
    agent: str
    note: str


REFUSED = {
    "403": Answer(403, BLOCK_PAGE, "text/html", note="refused"),
    "challenge": Answer(
        403, CHALLENGE_PAGE, "text/html", (("cf-mitigated", "challenge"), ("Server", "cloudflare")), note="refused"
    ),
    "429": Answer(429, TOO_MANY_PAGE, "text/html", note="refused"),
    "503": Answer(503, b'{"error":"Busy","message":"in a moment"}', note="refused"),
    "maintenance": Answer(503, MAINTENANCE_PAGE, "text/html", note="refused"),
    "reset": Answer(0, abort=True, note="refused"),
    "refuse": Answer(0, abort=True, note="refused"),  # of connections that were open before
}
NOT_FOUND = Answer(404, b'{"error":"NotFound"}')


class House:
    """A site that is well. `forced` is how it refuses until told otherwise; "" not at all; None as planned."""

    def __init__(self, plan: HousePlan) -> None:
        self.plan = plan
        self.log: list[Seen] = []
        self.counts: Counter[str] = Counter()
        self.forced: str | None = None
        self.port = 0
        self._page = lru_cache(maxsize=None)(lambda number: _encode(page_of(plan, number)))

    def answer(self, asked: Asked, now: float) -> Answer:
        """The answer to a request that came at `now`; it is in the log then."""
        answer = self._refused(asked, now) or self._answer(asked, now)
        self.log.append(Seen(now, asked.path, answer.status, asked.headers.get("user-agent", ""), answer.note))
        self.counts["requests"] += 1
        self.counts[f"status {answer.status}"] += 1
        if answer.note:
            self.counts[answer.note] += 1
        return answer

    def answered(self, asked: Asked) -> None:
        """Called when the answer is on its way."""

    def refusal(self, now: float) -> str:
        """How it refuses now: one of street_plan.REFUSALS, or ""."""
        return self.forced if self.forced is not None else self._planned(now)

    def _planned(self, now: float) -> str:
        return ""

    def _refused(self, asked: Asked, now: float) -> Answer | None:
        refusal = self.refusal(now)
        return REFUSED[refusal] if refusal else None

    def _answer(self, asked: Asked, now: float) -> Answer:
        if asked.path == "/robots.txt":
            return Answer(200, self.plan.robots.encode(), "text/plain")
        number = number_in(asked.path, "/page/")
        return NOT_FOUND if number is None else self._page_answer(number, asked, now)

    def _page_answer(self, number: int, asked: Asked, now: float) -> Answer:
        if number >= self.plan.pages:
            return NOT_FOUND
        self.counts["pages"] += 1
        return Answer(200, self._page(number), delay_s=self.plan.delay_s)


class TroubledHouse(House):
    """Refuses after so many pages, for so long; then it is well for good. The kinds `blocking` and `down`."""

    _since = 0.0

    def _planned(self, now: float) -> str:
        if self.counts["pages"] < self.plan.after:
            return ""
        self._since = self._since or now
        over = self.plan.for_s and now - self._since >= self.plan.for_s and self.counts["refused"] >= self.plan.least
        return "" if over else self.plan.refusal


class FlappingHouse(House):
    """Is well for a while, refuses for `for_s`, and so on, from its first request. The while is 2 to 6 times that.

    It refuses no page more often than MOST_REFUSALS, which is less often than a page is tried: at a fifth of the time
    one of a few thousand pages would by chance be refused at each of its tries, and be a dead letter as it should.
    """

    MOST_REFUSALS = 4
    _phase = 0
    _until = 0.0

    def __init__(self, plan: HousePlan) -> None:
        super().__init__(plan)
        self._refusals: Counter[str] = Counter()

    def _refused(self, asked: Asked, now: float) -> Answer | None:
        refused = super()._refused(asked, now)
        if refused is None or self.forced is not None:
            return refused
        if self._refusals[asked.path] >= self.MOST_REFUSALS:
            return None
        self._refusals[asked.path] += 1
        return refused

    def _planned(self, now: float) -> str:
        if not self.counts["requests"]:
            return ""
        while now >= self._until:
            self._phase += 1
            times = 2 + roll(self.plan.seed, self.plan.name, self._phase) % 5 if self._phase % 2 else 1
            self._until = (self._until or now) + self.plan.for_s * times
        return "" if self._phase % 2 else self.plan.refusal


def number_in(path: str, prefix: str) -> int | None:
    """The number that follows the prefix; None when there is none."""
    digits = path.partition("?")[0].removeprefix(prefix)
    return int(digits) if path.startswith(prefix) and digits.isdecimal() else None
