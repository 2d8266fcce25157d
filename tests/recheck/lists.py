"""A list as sites have them: pages of entries, newest first, which change between two looks and while it is read."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

from harvester.recheck.stopping import (
    Ending,
    ListedPage,
    ListEntry,
    ListRule,
    Mark,
    Pages,
    Position,
    VisitProgress,
    following,
    mark_after,
    step,
)

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
MOST_PAGES = 500
"""After which a look that does not end is given up."""


FIRST: dict[Pages, int] = {"page": 1, "offset": 0}
"""Number of the first page."""


class Line(NamedTuple):
    """An entry, with what its site knows of it."""

    key: str
    version: int = 0
    at: int = 0
    """Hours since BEGIN."""
    pinned: bool = False


class SimulatedList:
    """`add`, `edit`, `bump`, `pin`, `delete` are what people do to it; `page` is what a reader gets."""

    def __init__(self, pages: Pages = "cursor", size: int = 5, *, dated: bool = True, flags: bool = True) -> None:
        self.pages = pages
        self.size = size
        self.dated = dated
        """Whether the entries say their times and versions."""
        self.flags = flags
        """Whether pinned ones say so."""
        self.lines: list[Line] = []
        self.clock = 0
        self.with_total = True

    def add(self, *keys: str, at: int | None = None, place: int | None = None) -> Self:
        for key in keys:
            self.clock += 1
            line = Line(key, at=self.clock if at is None else at)
            self.lines.insert(self._below_pins() if place is None else place, line)
        return self

    def fill(self, number: int, prefix: str = "old") -> Self:
        return self.add(*(f"{prefix}{each}" for each in range(number)))

    def edit(self, *keys: str) -> Self:
        """Where they stand."""
        self.lines = [line._replace(version=line.version + 1) if line.key in keys else line for line in self.lines]
        return self

    def bump(self, *keys: str) -> Self:
        """An edit that brings each to the top."""
        for key in keys:
            (line,) = (each for each in self.lines if each.key == key)
            self.clock += 1
            self.lines.remove(line)
            self.lines.insert(self._below_pins(), line._replace(version=line.version + 1, at=self.clock))
        return self

    def pin(self, *keys: str) -> Self:
        for key in reversed(keys):
            (line,) = (each for each in self.lines if each.key == key)
            self.lines.remove(line)
            self.lines.insert(0, line._replace(pinned=True))
        return self

    def delete(self, *keys: str) -> Self:
        self.lines = [line for line in self.lines if line.key not in keys]
        return self

    def swap(self, one: int, other: int) -> Self:
        self.lines[one], self.lines[other] = self.lines[other], self.lines[one]
        return self

    def keys(self) -> list[str]:
        return [line.key for line in self.lines]

    def _below_pins(self) -> int:
        return sum(line.pinned for line in self.lines)

    def page(self, asked_with: Position) -> ListedPage:
        first = 0
        leads_to: Position = None
        if self.pages == "cursor":
            if asked_with is not None:  # it names the last entry of the page before, or the time when that is gone
                key, _, at = str(asked_with).partition("@")
                below = [number for number, line in enumerate(self.lines) if line.at < int(at) and not line.pinned]
                first = self.keys().index(key) + 1 if key in self.keys() else min(below, default=len(self.lines))
        elif self.pages == "page":
            first = (int(asked_with or 1) - 1) * self.size
        else:
            first = int(asked_with or 0)
        shown = self.lines[first : first + self.size]
        if self.pages == "cursor":
            if shown and first + self.size < len(self.lines):
                leads_to = f"{shown[-1].key}@{shown[-1].at}"
        else:
            leads_to = following(self.pages, int(asked_with or FIRST[self.pages]), len(shown))
        total = len(self.lines) if self.with_total and self.pages != "cursor" else None
        return ListedPage([self._entry(line) for line in shown], leads_to, total)

    def _entry(self, line: Line) -> ListEntry:
        if not self.dated:
            return ListEntry(line.key, pinned=line.pinned and self.flags)
        at = BEGIN + timedelta(hours=line.at)
        return ListEntry(line.key, f"{line.version}", at, line.pinned and self.flags)


class Read(NamedTuple):
    """What came of a look."""

    seen: set[str]
    """Keys of entries that it took for new or changed."""
    pages: int
    ending: Ending | None
    """None: it died."""
    mark: Mark
    """For the next look."""
    why: str = ""


def read(
    of: SimulatedList,
    mark: Mark | None = None,
    rule: ListRule | None = None,
    *,
    page_of: Callable[[Position], ListedPage] | None = None,
    between: Callable[[int], object] = lambda page: None,
    dies_after: int = MOST_PAGES,
) -> Read:
    """A look. `page_of`: what the site makes of its list; `between` is given the number of the page just read."""
    rule = (rule or ListRule())._replace(pages=of.pages, first=FIRST.get(of.pages, 0))
    mark = mark or Mark()
    look, asked_with, seen = VisitProgress(mark), None, set[str]()
    position: Position = asked_with
    for number in range(1, MOST_PAGES):
        page = (page_of or of.page)(position)
        result = step(look, page, _as_asked(of, position), rule)
        seen |= {page.entries[at].key for at in result.fresh}
        if result.ending:
            left = mark_after(result.look) if result.ending is Ending.WHOLE else mark
            return Read(seen, number, result.ending, left, result.why)
        if number >= dies_after:
            return Read(seen, number, None, mark)
        look, position = result.look, result.next
        between(number)
    raise AssertionError("the look does not end")


def _as_asked(of: SimulatedList, position: Position) -> Position:
    """Whoever counts pages or entries knows the number of the first one."""
    return position if position is not None or of.pages == "cursor" else FIRST[of.pages]
