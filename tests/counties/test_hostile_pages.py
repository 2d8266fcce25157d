"""A small page takes neither all memory nor hours, whatever it says of itself."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.parsers.counties import values
from harvester.parsers.counties.html import MAX_AROUND, lines_of, read_page
from harvester.spiders.counties.beacon import parser as beacon
from harvester.spiders.counties.devnet import parser as devnet
from harvester.spiders.counties.eagleweb import parser as eagleweb
from harvester.spiders.counties.esearch import parser as esearch
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.pacs import parser as pacs
from harvester.spiders.counties.patriot import parser as patriot
from harvester.spiders.counties.vgsi import parser as vgsi

SITE = "https://county.example/"
HEADER, WIDE = b"<tr><th>Year</th><th>Amount Due</th></tr>", b"<tr>%b</tr>" % (b'<td colspan="1000">x</td>' * 200)
READERS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "beacon": (
        lambda body: beacon.read_report(body, "7", SITE),
        b'<div class="module-header"><div class="title">Sales</div></div><div class="module-content">%b</div>',
    ),
    "devnet": (lambda body: devnet.read_parcel(body, SITE), b"%b"),
    "esearch": (esearch.read_taxes, b"%b"),
    "pacs": (lambda body: pacs.read_property(body, SITE), b'<div id="landDetails">%b</div>'),
}


@pytest.mark.parametrize("platform", READERS)
def test_a_row_of_wide_cells_is_not_taken_apart_to_its_end(platform: str) -> None:
    """Five kilobytes would be 200,000 cells, and a megabyte all memory."""
    read, page = READERS[platform]
    with pytest.raises(ParseError, match="1000 columns"):
        read(page % (b"<table>%b%b</table>" % (HEADER, WIDE)))


def test_a_page_that_says_again_and_again_that_there_is_no_data_is_read_in_time_that_grows_with_its_size() -> None:
    """It would take half an hour where each time all that follows is looked through."""
    said = b"<p>No data available for the following modules: Sales, "
    with pytest.raises(ParseError, match="lacks: Parcel ID"):
        beacon.read_report(said * 100_000, "7", SITE)
    assert beacon.read_report(said + b"Land, Summary.", "7", SITE) is None


@pytest.mark.parametrize("platform", ["devnet", "esearch"])
def test_tables_within_tables_are_not_read_again_with_each_of_them(platform: str) -> None:
    """Each cell is read with all that is in it: at 80 levels a page of 20,000 elements takes seconds."""
    nested = b"<table><tr><td>a" * (MAX_AROUND + 2) + b"</td></tr></table>" * (MAX_AROUND + 2)
    with pytest.raises(ParseError, match=rf"\b{MAX_AROUND}\b"):
        ENTRANCES[platform](b"<body>" + nested)


BLANKS = 200_000
"""They would take minutes in each of these places, or hours, where time grows with their square."""
ENTRANCES: dict[str, Callable[[bytes], Any]] = {
    "beacon": lambda body: beacon.read_report(body, "7", SITE),
    "devnet": lambda body: devnet.read_parcel(body, SITE),
    "eagleweb": eagleweb.read_account,
    "esearch": lambda body: esearch.read_parcel(body, "7"),
    "iasworld": lambda body: iasworld.read_datalet(body, SITE),
    "pacs": lambda body: pacs.read_property(body, SITE),
    "patriot": patriot.read_card,
    "vgsi": vgsi.parse_card,
}
ROW = b'<tr><%b class="label">a%bb</%b><td>x</td></tr>'
PAGE = (
    b'<h1>for year%b x</h1><div class="panel"><div class="panel-heading">Sales</div>'
    b'<div class="module-header"><div class="title">Sales</div></div>'
    b'<div class="module-content"><table>%b</table></div></div>'
    b'<div class="accountSummary"></div><div id="propertyDetails"><table>%b</table></div>'
    b'<td class="DataletHeaderTop">PARID: 7</td><table class="accountSummary" id="a%bb">%b</table>'
)


@pytest.mark.parametrize("platform", ENTRANCES)
def test_blanks_without_end_are_read_in_time_that_grows_with_their_number(platform: str) -> None:
    blanks = b" " * BLANKS
    row = ROW % (b"td", blanks, b"td") + ROW % (b"th", b"&nbsp;" * BLANKS, b"th")
    with suppress(ParseError):
        ENTRANCES[platform](PAGE % (blanks, row, row, blanks, row))


def test_a_run_of_blanks_is_kept_unless_nobody_can_have_meant_it() -> None:
    shown = ["007", "12   A", f"1{' ' * 99}2", "1 2", "a b", "c"]
    texts = ["\t007\n", "12   A", f"1{' ' * 99}2", f"1{' ' * 100}2", "a \xa0\n\t b", "\xa0c\xa0"]
    assert [line for text in texts for line in lines_of(read_page(f"<p>{text}</p>".encode()))] == shown


def test_a_value_with_blanks_without_end_is_no_number_at_once() -> None:
    assert values.number(f"-{' ' * BLANKS}x") is None
    assert str(values.number(f"(${' ' * BLANKS}5)")) == "-5"
