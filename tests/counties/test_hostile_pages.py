"""A small page takes neither all memory nor hours, whatever it says of itself."""

from collections.abc import Callable
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.parsers.counties import beacon, devnet, esearch, pacs

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
    with pytest.raises(ParseError, match="a row of a table has more than 1000 columns"):
        read(page % (b"<table>%b%b</table>" % (HEADER, WIDE)))


def test_a_page_that_says_again_and_again_that_there_is_no_data_is_read_in_time_that_grows_with_its_size() -> None:
    """It would take half an hour where each time all that follows is looked through."""
    said = b"<p>No data available for the following modules: Sales, "
    with pytest.raises(ParseError, match="the report of the parcel lacks: Parcel ID"):
        beacon.read_report(said * 100_000, "7", SITE)
    assert beacon.read_report(said + b"Land, Summary.", "7", SITE) is None
