"""A tree of pages, each a function of its number: what a crawl of it must find is known without crawling.

Page k links to the pages 3k+1 to 3k+3. Some are reached through a redirect, some refuse once or twice before they
answer, some show a picture, some are linked twice, some name an address at which nothing is, and some ask to be
checked: a second address whose request has `dont_filter`.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

FAN_OUT = 3


class Item(NamedTuple):
    """What a page tells: its number, which of its items it is, a value, and the address of a picture or ""."""

    page: int
    part: str
    value: int
    picture: str


class Tree(NamedTuple):
    """The tree of so many pages; another seed gives other values and other peculiarities."""

    pages: int = 30_000
    seed: int = 1

    def roll(self, what: str, number: int) -> int:
        """A number that is always the same, as good as chance."""
        return zlib.crc32(b"%d %s %d" % (self.seed, what.encode(), number))

    def holds(self, what: str, number: int, per_mille: int) -> bool:
        """Whether a page has a peculiarity that so many of 1,000 have."""
        return self.roll(what, number) % 1000 < per_mille

    def address(self, page: int) -> str:
        """Where others link to: the page, or the redirect to it."""
        return f"/moved/{page}" if page and self.holds("moved", page, 50) else f"/page/{page}"

    def redirect_status(self, page: int) -> int:
        return 301 + self.roll("status", page) % 2

    def refusals(self, page: int) -> int:
        """How often the page answers 503 before it answers."""
        return 1 + self.roll("refusals", page) % 2 if self.holds("refuses", page, 30) else 0

    def picture(self, page: int) -> str:
        """The address of its picture, or ""."""
        return f"/picture/{page}.png" if self.holds("picture", page, 50) else ""

    def missing(self, page: int) -> str:
        """An address that it links to, and at which nothing is; or ""."""
        return f"/missing/{page}" if self.holds("missing", page, 20) else ""

    def check(self, page: int) -> str:
        """An address of which it says that it must be asked for unfiltered; or ""."""
        return f"/check/{page}" if self.holds("check", page, 20) else ""

    def children(self, page: int) -> range:
        first = page * FAN_OUT + 1
        return range(min(first, self.pages), min(first + FAN_OUT, self.pages))

    def links(self, page: int) -> list[str]:
        """Where the page links to. Some links are there twice, some lead back to the parent."""
        found = []
        for child in self.children(page):
            found += [self.address(child)] * (2 if self.holds("twice", child, 50) else 1)
        if page and self.holds("back", page, 50):
            found.append(self.address((page - 1) // FAN_OUT))
        return found

    def items(self, page: int) -> list[Item]:
        """One to three."""
        count = 1 + self.roll("items", page) % 3
        picture = self.picture(page)
        return [
            Item(page, str(part), self.roll(f"value {part}", page), "" if part else picture) for part in range(count)
        ]

    def checked(self, page: int) -> Item:
        """What its check tells."""
        return Item(page, "check", self.roll("check value", page), "")

    def all_items(self) -> Iterator[Item]:
        """What a whole crawl finds; an address at which nothing is counts as an item whose value is 404."""
        for page in range(self.pages):
            yield from self.items(page)
            if self.check(page):
                yield self.checked(page)
            if self.missing(page):
                yield Item(page, "missing", 404, "")

    def filtered(self) -> int:
        """How many different addresses a whole crawl asks for, those with `dont_filter` left out."""
        return self.pages + sum(bool(self.missing(page)) for page in range(self.pages))

    def moved(self) -> int:
        """How many pages are reached through a redirect."""
        return sum(self.address(page) != f"/page/{page}" for page in range(self.pages))

    def unfiltered(self) -> int:
        """How many addresses it asks for with `dont_filter`."""
        return sum(bool(self.check(page)) for page in range(self.pages))
