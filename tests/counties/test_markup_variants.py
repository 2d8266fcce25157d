"""A page that says the same in other markup gives the same records: what differs from county to county and from version
to version of a platform."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree
from lxml.html import HtmlElement, document_fromstring

from harvester.items import Provenance
from harvester.parsers.counties.columns import Source
from harvester.spiders.counties.saved import read_saved
from tests.counties.saved_pages import shown

PAGES = Path(__file__).parent / "pages"
SAVED = {
    "beacon": "beacon_bay",
    "devnet": "devnet_bordered",
    "eagleweb": "eagleweb_assessor",
    "esearch": "esearch_parcel",
    "iasworld": "iasworld_franklin",
    "pacs": "pacs_property",
    "patriot": "patriot_card",
    "vgsi": "vgsi_card",
}


def cells(page: HtmlElement) -> list[HtmlElement]:
    return [cell for cell in page.iter("td", "th") if cell.find(".//table") is None]


def tables(page: HtmlElement) -> list[HtmlElement]:
    return [table for table in page.iter("table") if table.find(".//table") is None]


def in_spans(page: HtmlElement) -> None:
    for cell in cells(page):
        span = etree.Element("span")
        span.text, cell.text = cell.text, None
        span.extend(list(cell))
        cell.append(span)


def with_scripts_and_comments(page: HtmlElement) -> None:
    for cell in cells(page):
        etree.SubElement(cell, "script").text = "var owner = 'Owner';"
        cell.insert(0, etree.Comment("Owner"))
        cell[0].tail, cell.text = cell.text, None


def with_blanks_around(page: HtmlElement) -> None:
    for cell in cells(page):
        if (cell.text or "").strip():
            cell.text = f"\xa0 {cell.text} \xa0"


def without_heads_and_bodies(page: HtmlElement) -> None:
    for part in list(page.iter("thead", "tbody")):
        part.drop_tag()


def with_an_empty_row(page: HtmlElement) -> None:
    for rows in filter(None, (list(table.iter("tr")) for table in tables(page))):
        empty = etree.SubElement(rows[-1].getparent(), "tr")
        for cell in rows[-1] if len(rows[-1]) > 1 else ():
            etree.SubElement(empty, cell.tag, cell.attrib).text = "\xa0"


def with_a_note_below(page: HtmlElement) -> None:
    for rows in filter(None, (list(table.iter("tr")) for table in tables(page))):
        if len(rows[-1]) > 1:
            note = etree.SubElement(rows[-1].getparent(), "tr")
            etree.SubElement(note, "td", colspan=str(len(rows[-1]))).text = "Values are subject to change."


def with_a_hidden_copy(page: HtmlElement) -> None:
    body = page.find("body")
    assert body is not None
    copy = etree.fromstring(etree.tostring(body))
    copy.tag = "div"
    copy.set("style", "display: none")
    for each in copy.iter():
        if each.get("id"):
            each.set("id", f"{each.get('id')}_print")
    body.append(copy)


@pytest.mark.parametrize("platform", SAVED)
@pytest.mark.parametrize(
    "change",
    [
        in_spans,
        with_scripts_and_comments,
        with_blanks_around,
        without_heads_and_bodies,
        with_an_empty_row,
        with_a_note_below,
        with_a_hidden_copy,
    ],
)
def test_the_same_page_in_other_markup_gives_the_same_records(
    platform: str, change: Callable[[HtmlElement], None]
) -> None:
    body = (PAGES / f"{SAVED[platform]}.html").read_bytes()
    page = document_fromstring(body.decode())
    known = _of(platform, etree.tostring(page, method="html", encoding="utf-8"))
    change(page)
    assert _of(platform, etree.tostring(page, method="html", encoding="utf-8")) == known


def _of(platform: str, body: bytes) -> list[dict[str, object]]:
    """The records but for what no field was read from."""
    seen = Provenance("https://county.example/parcel/view/1", datetime(2026, 1, 31, tzinfo=UTC), "test")
    found = shown(read_saved(platform, body, Source("us-xx-made-up", "26001"), seen).records)
    return [{name: value for name, value in row.items() if name not in ("others", "labels")} for row in found]
