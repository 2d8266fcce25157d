"""`make costly`, of readers of county pages, which work in the event loop: the largest takes less than a second."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from harvester.exceptions import ParseError
from harvester.spiders.counties.beacon import parser as beacon
from harvester.spiders.counties.devnet import parser as devnet
from harvester.spiders.counties.eagleweb import parser as eagleweb
from harvester.spiders.counties.esearch import parser as esearch
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.pacs import parser as pacs
from harvester.spiders.counties.patriot import parser as patriot
from harvester.spiders.counties.platform import PlatformSpider
from harvester.spiders.counties.vgsi import parser as vgsi
from tests.costly.measuring import MAX_GAP_S

pytestmark = pytest.mark.costly

PAGES = Path(__file__).parents[1] / "counties" / "pages"
SITE = "https://county.example/"
READERS: dict[str, Callable[[bytes], Any]] = {
    "beacon_bay": lambda body: beacon.read_report(body, "05701-010-000", SITE),
    "devnet_bordered": lambda body: devnet.read_parcel(body, SITE),
    "eagleweb_assessor": eagleweb.read_account,
    "esearch_parcel": lambda body: esearch.read_parcel(body, "7"),
    "iasworld_franklin": lambda body: iasworld.read_datalet(body, SITE),
    "pacs_property": lambda body: pacs.read_property(body, SITE),
    "patriot_card": patriot.read_card,
    "vgsi_card": vgsi.parse_card,
}
"""Saved page -> what reads it."""
_rows = re.compile(rb"(?is)<tr\b(?:(?!<tr\b|<table\b).)*?</tr>").finditer
_body = re.compile(rb"(?is)(<body[^>]*>)(.*)(</body>)")


def _elements(page: bytes) -> int:
    return int(html.fromstring(page).xpath("count(//*)"))


def _enlarged(page: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields the page with as many elements as may be parsed: with more of what it holds, or of one of its rows."""
    missing = PlatformSpider.MAX_ELEMENTS - _elements(page)
    number = missing // _elements(page)
    yield "all of it again", _body.sub(lambda found: found[1] + found[2] * number + found[3], page)
    rows = [*_rows(page)]
    for name, row in (
        ("first row", rows[0]),
        ("last row", rows[-1]),
        ("longest row", max(rows, key=lambda r: len(r[0]))),
    ):
        number = missing // len(re.findall(rb"<[a-zA-Z]", row[0]))
        yield name, page[: row.end()] + row[0] * number + page[row.end() :]
    labels = b"<table>" + b"<tr><th>Label</th><td>x</td></tr>" * (missing // 3) + b"</table></body>"
    yield "rows of labels", page.replace(b"</body>", labels)


@pytest.mark.parametrize("name", READERS)
def test_the_largest_page_of_a_county_is_read_within_a_second(name: str) -> None:
    longest = 0.0
    for what, page in _enlarged((PAGES / f"{name}.html").read_bytes()):
        began = time.thread_time()
        with suppress(ParseError):
            READERS[name](page)
        seconds = time.thread_time() - began
        longest = max(longest, seconds)
        print(f"\n  {name:20s} {what:18s} {len(page) / 2**20:5.1f} MB {seconds:6.2f} s", end="", flush=True)
    assert longest < MAX_GAP_S
