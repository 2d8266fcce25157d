"""The platform of a page is recognised by its address, or by what the vendor leaves in it."""

import json
from urllib.parse import urlencode

import pytest

from harvester.parsers.counties.recognise import Recognised, address_of_records, recognise
from harvester.sites import load_sites
from harvester.sites.property import PropertyRecords

OPENED = {
    "beacon": ("?PageTypeID=4&KeyValue=1", ""),
    "devnet": ("parcel/view/0101/2024", ""),
    "eagleweb": ("taxweb/account.jsp?accountNum=R1", '<form action="loginPOST.jsp"><input value="Enter EagleWeb">'),
    "esearch": ("Property/View/12?year=2024", "$.get('/search/requestSessionToken')"),
    "iasworld": ("search/commonsearch.aspx?mode=parid", "<meta Description content='iasWorld'>"),
    "pacs": ("Property.aspx?prop_id=5", '<input id="propertySearchOptions_searchText">'),
    "patriot": ("SearchResults.asp", ""),
    "vgsi": ("Parcel.aspx?pid=7", ""),
}
"""Platform -> what a person has open below the base of its site, and what stands in that."""


def opened(records: PropertyRecords) -> tuple[str, str]:
    """The address and the text of a page of this jurisdiction."""
    if records.platform in ("arcgis", "socrata"):
        column = records.parameters.get("parcel_id_field", "PIN")
        layer = {"fields": [{"name": "SHAPE"}, {"name": column}]}
        return address_of_records(records.base_url), json.dumps(
            layer if records.platform == "arcgis" else [{column: 1}]
        )
    below, page = OPENED[records.platform]
    told = ("&" if "?" in below else "?") + urlencode(records.parameters)
    return records.base_url + below + told, page


def test_every_jurisdiction_of_the_registry_is_recognised_as_what_it_is() -> None:
    for site in load_sites().having("property"):
        assert site.property
        found = recognise(*opened(site.property))
        assert found, site.name
        assert (found.platform, found.base_url) == (site.property.platform, site.property.base_url)
        if found.platform not in ("arcgis", "socrata"):
            assert found.parameters == site.property.parameters


@pytest.mark.parametrize(
    ("url", "page", "found"),
    [
        (
            "https://a.example/PT/Search/Disclaimer.aspx?FromUrl=../search/commonsearch.aspx",
            "<script src='Script/ParidControl.js'></script>",
            Recognised("iasworld", "https://a.example/PT/", {}),
        ),
        ("https://a.example", "Powered by iasWorld Public Access", Recognised("iasworld", "https://a.example/", {})),
        (
            "https://a.example/vision/x/Parcel.aspx?pid=1",
            "<img id='vgs_icon'>",
            Recognised("vgsi", "https://a.example/vision/", {}),
        ),
        (
            "https://beacon.schneidercorp.com/Application.aspx?appid=12&LayerId=3&PageTypeID=2&PageID=9",
            "",
            Recognised(
                "beacon", "https://beacon.schneidercorp.com/Application.aspx", {"AppID": 12, "LayerID": 3, "PageID": 9}
            ),
        ),
        (
            "http://webpro.patriotproperties.com/lynn/Summary.asp?AccountNumber=4",
            "",
            Recognised("patriot", "http://webpro.patriotproperties.com/lynn/", {}),
        ),
        (
            "https://g.example/rest/services/A/B/MapServer/3?f=json",
            '{"fields": [{"name": "OBJECTID"}, {"name": "GIS.OLD.ParcelNo"}, {"name": "Owner"}]}',
            Recognised(
                "arcgis",
                "https://g.example/rest/services/A/B/MapServer/3",
                {"parcel_id_field": "GIS.OLD.ParcelNo"},
            ),
        ),
        (
            "https://data.example/resource/ab12-cd34.json?$limit=1",
            '[{"roll_year": "2024", "apn": "1"}]',
            Recognised("socrata", "https://data.example/resource/ab12-cd34.json", {"parcel_id_field": "apn"}),
        ),
    ],
)
def test_pages_of_vendors_are_recognised_by_their_marks(url: str, page: str, found: Recognised) -> None:
    assert recognise(url, page) == found


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://a.example/", "<title>Tyler, Texas</title>"),
        ("https://a.example/", ""),
        ("https://g.example/rest/services/A/MapServer/3?f=json", '{"error": {"code": 499}}'),
        ("https://g.example/rest/services/A/MapServer/3?f=json", "<html>not json"),
        ("https://g.example/rest/services/A/MapServer/3?f=json", "[" * 100_000),
        ("https://data.example/resource/ab12-cd34.json?$limit=1", '{"error": true, "message": "no such dataset"}'),
        ("https://gis.vgsi.com/", "Vision Government Solutions"),
    ],
)
def test_what_is_no_known_platform_is_none(url: str, page: str) -> None:
    assert recognise(url, page) is None


def test_layers_and_datasets_are_asked_for_their_columns() -> None:
    ask = address_of_records
    assert ask("https://g.example/rest/services/A/MapServer/3/query?where=1=1") == (
        "https://g.example/rest/services/A/MapServer/3?f=json"
    )
    assert ask("https://data.example/Housing/Parcels/ab12-cd34/data") == (
        "https://data.example/resource/ab12-cd34.json?$limit=1"
    )
    assert ask("https://a.example/PT/") == "https://a.example/PT/"
