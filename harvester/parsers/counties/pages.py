"""Holds what pages of property records share: labels beside their values, and tables of rows with a header."""

import re
from collections.abc import Iterable, Sequence

from lxml.html import HtmlElement
from msgspec import Struct

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels
from harvester.parsers.counties.html import text_of

NUMBER = r"\d[\d,]{0,14}"
"""A number of rows or pages as shown; a comma alone does not match."""
shown_of_all = re.compile(rf"\b({NUMBER})\s*(?:-|–|to)\s*({NUMBER})\s+of\s+({NUMBER})\b", re.IGNORECASE).search
"""Matches the range of shown results: `16 - 30 of 1,204`."""


class Labelled(Struct, array_like=True):
    """A value with its label."""

    id: str
    """The id of the element; empty if it has no id."""
    label: str
    """The label as shown."""
    lines: list[str]
    section: str = ""
    """The section of a repeated kind, such as one building among several."""

    @property
    def text(self) -> str:
        """The value in one line."""
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
        """The rows.

        Raises ParseError when a row and the header differ in length: the cells have no clear meaning then.
        """
        for row in self.rows:
            if len(row) != len(self.headers):
                name = self.caption or self.id
                raise ParseError(f"a row of {name} has {len(row)} cells, and its header {len(self.headers)}")
        return self.rows

    def column(self, wanted: Iterable[str]) -> int | None:
        """Returns the position of the column with the first matching label, or None."""
        plain = [labels.plain(header) for header in self.headers]
        return next((plain.index(label) for label in wanted if label in plain), None)

    def shown(self, row: Sequence[str], without: Iterable[int] = ()) -> dict[str, str]:
        """Returns header -> cell for the cells that have text."""
        names = [*self.headers, *[""] * (len(row) - len(self.headers))]
        return {names[at] or f"column {at + 1}": cell for at, cell in enumerate(row) if cell and at not in without}


def label_of(element: HtmlElement) -> str:
    """Returns the text of a label, without the marks after it."""
    return " ".join(text_of(element).split()).rstrip(":* ")


def grid_of(table: HtmlElement, name: str, section: str = "") -> Grid:
    """Returns a table's header and rows. A lone cell is a notice about missing data, not a row."""
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
