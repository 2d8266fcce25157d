"""What pages of property records have in common: labels with values beside them, and tables of rows with a header."""

import re
from collections.abc import Iterable, Sequence

from lxml.html import HtmlElement
from msgspec import Struct

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels
from harvester.parsers.counties.html import text_of

NUMBER = r"\d[\d,]{0,14}"
"""Of rows or pages, as people see it; a comma alone is none."""
shown_of_all = re.compile(rf"\b({NUMBER})\s*(?:-|–|to)\s*({NUMBER})\s+of\s+({NUMBER})\b", re.IGNORECASE).search
"""Which results a page shows: `16 - 30 of 1,204`."""


class Labelled(Struct, array_like=True):
    """A value with its label."""

    id: str
    """By which the page names it; empty: it does not."""
    label: str
    """As people see it."""
    lines: list[str]
    section: str = ""
    """Of those that a page repeats, such as buildings: which of them."""

    @property
    def text(self) -> str:
        """In one line."""
        return ", ".join(self.lines)


class Grid(Struct, array_like=True):
    """A table of rows with a header."""

    id: str
    caption: str
    headers: list[str]
    rows: list[list[str]]
    section: str = ""

    @property
    def sure_rows(self) -> list[list[str]]:
        """The rows. Raises ParseError when one has more cells than the header, or fewer: who knows what they are."""
        for row in self.rows:
            if len(row) != len(self.headers):
                name = self.caption or self.id
                raise ParseError(f"a row of {name} has {len(row)} cells, and its header {len(self.headers)}")
        return self.rows

    def column(self, wanted: Iterable[str]) -> int | None:
        """Which column has one of these labels, the first first."""
        plain = [labels.plain(header) for header in self.headers]
        return next((plain.index(label) for label in wanted if label in plain), None)

    def shown(self, row: Sequence[str], without: Iterable[int] = ()) -> dict[str, str]:
        """Header -> cell, of those that have something in them."""
        names = [*self.headers, *[""] * (len(row) - len(self.headers))]
        return {names[at] or f"column {at + 1}": cell for at, cell in enumerate(row) if cell and at not in without}


def label_of(element: HtmlElement) -> str:
    """What a label says, without the marks behind it."""
    return " ".join(text_of(element).split()).rstrip(":* ")


def grid_of(table: HtmlElement, name: str, section: str = "") -> Grid:
    """A table's header and rows; a lone cell, which says that there is no data, is no row."""
    found = table.find("caption")
    caption = " ".join((found.text or "").split()) if found is not None else ""
    grid = Grid(name, caption, [], [], section)
    for row in table.iter("tr"):
        headers = row.findall("th")
        if headers:
            grid.headers = [label_of(each) for each in headers]
            continue
        cells = [text_of(each) for each in row.findall("td")]
        if len(cells) > 1 or (cells and len(grid.headers) == 1):
            grid.rows.append(cells)
    return grid
