"""Pages as sites show them, of each platform one of each kind, and what is made of it.

`python -m tests.counties.saved_pages` writes the records of the valid ones anew: read them before they are committed.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from scrapy import Request
from scrapy.http import HtmlResponse

from harvester.exceptions import PageFailed, ParseError
from harvester.items import Provenance
from harvester.items.property import CountyRecord
from harvester.outcomes.classifier import classify, classify_page
from harvester.outcomes.outcome import OK
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, records_of
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.eagleweb import parser as eagleweb
from harvester.spiders.counties.esearch import parser as esearch
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.pacs import parser as pacs
from harvester.spiders.counties.saved import read_page, read_unchecked
from tests.counties.unread import shown_of

PAGES = Path(__file__).parent / "pages"
RECORDS = PAGES / "records.json"
KINDS = ("valid", "no_results", "too_many", "maintenance", "session_expired", "blocked", "layout_changed")
SOURCE = Source("us-mi-made-up", "26001")
SEEN = Provenance("https://county.example/", datetime(2026, 1, 31, tzinfo=UTC), "test")
NO_RESULTS, TOO_MANY = "no_results", "too_many"
Made = PageRows | ParcelPage | str | None
"""What a parser makes of a page: records, what they are made of, an outcome; None: it speaks of no parcel."""
Reader = Callable[[bytes, str], Made]


class Saved(NamedTuple):
    """A page, and what it was the answer to."""

    file: str
    url: str
    read: Reader
    """The parser that is given it, with its address."""
    outcome: str
    said: str = ""
    """Of the reason."""
    status: int = 200
    asked: str = ""
    """The address from which a redirect led to it."""


def made_of(page: Saved) -> tuple[str, str, list[CountyRecord]]:
    """Outcome, reason, and records of a page."""
    kind = b"application/json" if page.file.endswith(".json") else b"text/html"
    body = (PAGES / page.file).read_bytes()
    request = Request(page.asked or page.url, meta={"redirect_urls": [page.asked]} if page.asked else {})
    response = HtmlResponse(page.url, page.status, {b"Content-Type": kind}, body, request=request)
    verdict = classify(response, request)
    if verdict != OK:
        return verdict.outcome, verdict.reason, []
    try:
        made = page.read(body, page.url)
        if isinstance(made, ParcelPage):
            made = records_of(made, SOURCE._replace(platform=page.file.partition("_")[0]), SEEN)
    except (PageFailed, ParseError) as error:
        verdict = classify_page(response, error)
        return verdict.outcome, verdict.reason, []
    if isinstance(made, PageRows):
        assert not made.rejects
        return "ok", "", made.records
    return made or NO_RESULTS, "", []


def shown(records: list[CountyRecord]) -> list[dict[str, Any]]:
    """Records as they are compared: without what is not of their page, and without the reasons of what is unread."""
    rows: list[dict[str, Any]] = json.loads(msgspec.json.encode(records))
    for row in rows:
        row["unread"] = shown_of(row.get("unread", {}))
    unsaid = ("provenance", "raw", "situs_parts", "fips", "jurisdiction")
    return [
        {name: value for name, value in row.items() if name not in unsaid and value not in (None, [], {}, ())}
        for row in rows
    ]


def _rows(read: PageRows) -> Made:
    if read.goes_on:
        return TOO_MANY
    return read if read.number else None


def _arcgis(body: bytes, url: str) -> Made:
    return _rows(read_unchecked("arcgis", body, SOURCE._replace(parcel_id_field="PNUM"), SEEN))


def _socrata(body: bytes, url: str) -> Made:
    return _rows(read_unchecked("socrata", body, SOURCE._replace(parcel_id_field="pin"), SEEN))


def _vgsi(body: bytes, url: str) -> Made:
    return read_unchecked("vgsi", body, SOURCE, SEEN)


def _page_of(platform: str, asked: str = "") -> Reader:
    return lambda body, url: read_page(platform, body, asked, url, SOURCE)


def _eagleweb(body: bytes, url: str) -> Made:
    found = eagleweb.read_results(body, url)
    return TOO_MANY if found.number > len(found.accounts) else None


def _esearch(body: bytes, url: str) -> Made:
    found = esearch.read_results(body)
    return TOO_MANY if found.total > len(found.parcel_ids) else None


def _iasworld(body: bytes, url: str) -> Made:
    found = iasworld.read_answer(body, url)
    assert not isinstance(found, iasworld.IasWorldResults)
    return found.page if isinstance(found, iasworld.First) else found


def _pacs(body: bytes, url: str) -> Made:
    return TOO_MANY if len(pacs.read_results(body, url).hits) > 1 else None


_LAYER = "https://gis.kent.example/arcgis/rest/services/Parcels/FeatureServer/0/query?where=1%3D1&f=json"
_DATASET = "https://data.cook.example/resource/abcd-1234.json?$limit=1000"
_CARD = "https://gis.vgsi.com/adatownme/Parcel.aspx?pid=975"
_VIEW = "https://kaneil.devnetwedge.com/parcel/view/0620328021/2023"
_REPORT = (
    "https://beacon.schneidercorp.com/Application.aspx?AppID=834&LayerID=15170&PageTypeID=4&KeyValue=05701-010-000"
)
_GUARD = "https://beacon.schneidercorp.com/ValidateUser.aspx?ReturnUrl=x"
_SUMMARY = "https://beverly.patriotproperties.com/summary-bottom.asp"
_ACCOUNT = "https://eagle.apache.example/assessor/taxweb/account.jsp?accountNum=R0026183"
_RESULTS = "https://eagle.apache.example/assessor/taxweb/results.jsp"
_PROPERTY = "https://esearch.hays.example/Property/View/13572"
_FOUND = "https://esearch.hays.example/search/SearchResults?keywords=x"
_DATALET = "https://property.franklin.example/_web/Datalets/Datalet.aspx?sIndex=0&idx=1"
_SEARCH = "https://property.franklin.example/_web/search/commonsearch.aspx?mode=parid"
_CLIENT = "https://propaccess.trueautomation.com/clientdb/Property.aspx?cid=7&prop_id=10001"
_HITS = "https://propaccess.trueautomation.com/clientdb/SearchResults.aspx?cid=7"
_AWAY = "https://propaccess.trueautomation.com/clientdb/customdisplay.htm?aspxerrorpath=x"


_beacon = _page_of("beacon", "05701-010-000")
_devnet = _page_of("devnet")
_property = _page_of("esearch", "13572")
_card = _page_of("patriot")
_account = _page_of("eagleweb")
_of_pacs = _page_of("pacs")

SAVED: Mapping[str, Mapping[str, Saved]] = {
    "arcgis": {
        "valid": Saved("arcgis_kent_page.json", _LAYER, _arcgis, "ok"),
        "no_results": Saved("arcgis_no_results.json", _LAYER, _arcgis, NO_RESULTS),
        "too_many": Saved("arcgis_too_many.json", _LAYER, _arcgis, TOO_MANY),
        "maintenance": Saved("arcgis_maintenance.html", _LAYER, _arcgis, "maintenance"),
        "session_expired": Saved("arcgis_session_expired.json", _LAYER, _arcgis, "session_expired"),
        "blocked": Saved("arcgis_blocked.html", _LAYER, _arcgis, "blocked", status=403),
        "layout_changed": Saved("arcgis_layout_changed.json", _LAYER, _arcgis, "layout_changed", "'PNUM'"),
    },
    "socrata": {
        "valid": Saved("socrata_cook_values.json", _DATASET, _socrata, "ok"),
        "no_results": Saved("socrata_no_results.json", _DATASET, _socrata, NO_RESULTS),
        "maintenance": Saved("socrata_maintenance.html", _DATASET, _socrata, "maintenance"),
        "blocked": Saved("socrata_blocked.json", _DATASET, _socrata, "auth_required", status=403),
        "layout_changed": Saved("socrata_layout_changed.json", _DATASET, _socrata, "layout_changed", "'pin'"),
    },
    "vgsi": {
        "valid": Saved("vgsi_card.html", _CARD, _vgsi, "ok"),
        "no_results": Saved("vgsi_no_results.html", _CARD, _vgsi, "not_found"),
        "maintenance": Saved("vgsi_maintenance.html", _CARD, _vgsi, "maintenance"),
        "blocked": Saved("vgsi_blocked.html", _CARD, _vgsi, "challenge", status=403),
        "layout_changed": Saved("vgsi_layout_changed.html", _CARD, _vgsi, "layout_changed", "lacks: Location"),
    },
    "devnet": {
        "valid": Saved("devnet_bordered.html", _VIEW, _devnet, "ok"),
        "no_results": Saved("devnet_no_results.html", _VIEW, _devnet, NO_RESULTS),
        "maintenance": Saved("devnet_maintenance.html", _VIEW, _devnet, "maintenance"),
        "blocked": Saved("devnet_blocked.html", _VIEW, _devnet, "blocked", status=403),
        "layout_changed": Saved(
            "devnet_layout_changed.html", _VIEW, _devnet, "layout_changed", contract.CALLED[contract.SITUS]
        ),
    },
    "beacon": {
        "valid": Saved("beacon_bay.html", _REPORT, _beacon, "ok"),
        "no_results": Saved("beacon_no_results.html", _REPORT, _beacon, "empty"),
        "maintenance": Saved("beacon_maintenance.html", _REPORT, _beacon, "maintenance"),
        "session_expired": Saved("beacon_session_expired.html", _GUARD, _beacon, "session_expired", asked=_REPORT),
        "blocked": Saved("beacon_blocked.html", _REPORT, _beacon, "challenge", status=403),
        "layout_changed": Saved("beacon_layout_changed.html", _REPORT, _beacon, "layout_changed", "lacks: Parcel ID"),
    },
    "patriot": {
        "valid": Saved("patriot_card.html", _SUMMARY, _card, "ok"),
        "no_results": Saved("patriot_no_results.html", _SUMMARY, _card, NO_RESULTS),
        "maintenance": Saved("patriot_maintenance.html", _SUMMARY, _card, "maintenance"),
        "session_expired": Saved("patriot_session_expired.html", _SUMMARY, _card, "session_expired"),
        "blocked": Saved("patriot_blocked.html", _SUMMARY, _card, "blocked", status=403),
        "layout_changed": Saved(
            "patriot_layout_changed.html", _SUMMARY, _card, "layout_changed", contract.CALLED[contract.OWNER]
        ),
    },
    "eagleweb": {
        "valid": Saved("eagleweb_assessor.html", _ACCOUNT, _account, "ok"),
        "no_results": Saved("eagleweb_no_results.html", _RESULTS, _eagleweb, NO_RESULTS),
        "too_many": Saved("eagleweb_too_many.html", _RESULTS, _eagleweb, TOO_MANY),
        "maintenance": Saved("eagleweb_maintenance.html", _ACCOUNT, _account, "maintenance"),
        "session_expired": Saved("eagleweb_session_expired.html", _ACCOUNT, _account, "session_expired"),
        "blocked": Saved("eagleweb_blocked.html", _ACCOUNT, _account, "blocked", status=403),
        "layout_changed": Saved(
            "eagleweb_layout_changed.html", _ACCOUNT, _account, "layout_changed", contract.CALLED[contract.OWNER]
        ),
    },
    "esearch": {
        "valid": Saved("esearch_parcel.html", _PROPERTY, _property, "ok"),
        "no_results": Saved("esearch_no_results.json", _FOUND, _esearch, NO_RESULTS),
        "too_many": Saved("esearch_too_many.json", _FOUND, _esearch, TOO_MANY),
        "maintenance": Saved("esearch_maintenance.html", _PROPERTY, _property, "maintenance"),
        "session_expired": Saved("esearch_session_expired.html", _FOUND, _esearch, "not_found", status=404),
        "blocked": Saved("esearch_blocked.html", _PROPERTY, _property, "blocked", status=403),
        "layout_changed": Saved(
            "esearch_layout_changed.html", _PROPERTY, _property, "layout_changed", contract.CALLED[contract.SITUS]
        ),
    },
    "iasworld": {
        "valid": Saved("iasworld_franklin.html", _DATALET, _iasworld, "ok"),
        "no_results": Saved("iasworld_no_results.html", _SEARCH, _iasworld, "empty"),
        "too_many": Saved("iasworld_too_many.html", _SEARCH, _iasworld, TOO_MANY),
        "maintenance": Saved("iasworld_maintenance.html", _SEARCH, _iasworld, "maintenance"),
        "session_expired": Saved("iasworld_session_expired.html", _SEARCH, _iasworld, "session_expired"),
        "blocked": Saved("iasworld_blocked.html", _SEARCH, _iasworld, "challenge", status=403),
        "layout_changed": Saved("iasworld_layout_changed.html", _DATALET, _iasworld, "layout_changed", "searchResults"),
    },
    "pacs": {
        "valid": Saved("pacs_property.html", _CLIENT, _of_pacs, "ok"),
        "no_results": Saved("pacs_no_results.html", _HITS, _pacs, "empty"),
        "too_many": Saved("pacs_too_many.html", _HITS, _pacs, TOO_MANY),
        "maintenance": Saved("pacs_maintenance.html", _AWAY, _of_pacs, "maintenance", asked=_CLIENT),
        "session_expired": Saved("pacs_session_expired.html", _HITS, _pacs, "session_expired"),
        "blocked": Saved("pacs_blocked.html", _CLIENT, _of_pacs, "blocked", status=403),
        "layout_changed": Saved(
            "pacs_layout_changed.html", _CLIENT, _of_pacs, "layout_changed", contract.CALLED[contract.OWNER]
        ),
    },
}
"""Platform -> kind -> its page."""
NO_PAGE: Mapping[tuple[str, str], str] = {
    ("socrata", "too_many"): "it gives as many rows as it is asked for",
    ("socrata", "session_expired"): "a public dataset is asked for without a session",
    ("vgsi", "too_many"): "how many parcels its search gives at most is not known",
    ("vgsi", "session_expired"): "it has no sessions",
    ("devnet", "too_many"): "its search shows all that it finds",
    ("devnet", "session_expired"): "it has no sessions",
    ("beacon", "too_many"): "it is not searched: parcels are asked for by their numbers",
    ("patriot", "too_many"): "its search shows all that it finds, page by page",
}
"""Kinds that a platform does not have, and why."""


def main() -> None:
    """Writes the records of the valid pages."""
    records = {platform: shown(made_of(pages["valid"])[2]) for platform, pages in SAVED.items()}
    RECORDS.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
