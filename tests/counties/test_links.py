"""Links of pages that lead nowhere, such as `http://[your town]/` in a footer, cost nothing of what else they say."""

from collections.abc import Callable
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.spiders.counties.devnet import parser as devnet
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.pacs import parser as pacs
from harvester.spiders.counties.patriot import parser as patriot
from harvester.spiders.counties.vgsi import parser as vgsi

NOWHERE = b'<a href="http://[your town]/datalet.aspx?bill.pdf">Tax bill</a><form action="http://[form]/"></form>'
SITE = "https://county.example/"
RESULTS = (
    b'<table id="propertySearchResults_resultsTable">'
    b"<tr><th>Property ID</th><th>Owner Name</th><th>Property Address</th></tr>"
    b'<tr><td><a href="Property.aspx?prop_id=7">7</a></td><td>DOE J</td><td>1 ELM ST</td></tr></table>'
)
DATALET = (
    b'<table><tr><td class="DataletHeaderTop">PARID: 7</td></tr></table>'
    b'<div id="sidemenu"><a href="datalet.aspx?mode=sales">Sales</a>%b</div>' % NOWHERE
)
PAGES: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "streets of VGSI": (
        vgsi.parse_streets,
        b'<form action="Streets.aspx"></form><div id="list"><a href="Streets.aspx?Name=ELM+ST">ELM ST</a></div>',
    ),
    "parcels of VGSI": (vgsi.parse_street, b'<div id="list"><a href="Parcel.aspx?pid=7">1 ELM ST</a></div>'),
    "results of Patriot": (
        patriot.read_results,
        b'<table><tr><td><a href="Summary.asp?AccountNumber=7">7</a></td><td>1 ELM ST</td></tr></table>',
    ),
    "results of DEVNET": (devnet.read_search, b'<a href="/parcel/view/0409400001">04-09-400-001</a>'),
    "results of PACS": (lambda body: pacs.read_results(body, SITE), RESULTS),
    "a datalet of iasWorld": (lambda body: iasworld.read_first(body, SITE), DATALET),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_link_that_is_no_address_is_passed_over(name: str) -> None:
    read, page = PAGES[name]
    assert read(page + NOWHERE) == read(page)
    assert read(page)


def test_a_form_that_is_sent_to_no_address_is_another_layout() -> None:
    page = b'<form action="http://[form]/"><input name="inpParid"></form>'
    with pytest.raises(ParseError, match="address"):
        iasworld.read_search(page, SITE, ["parcel"])
