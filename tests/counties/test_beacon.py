"""Pages of Schneider Beacon and qPublic: a site's own page, reports of parcels; and pages that are none of these."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import HtmlResponse

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill
from harvester.outcomes import Outcome
from harvester.outcomes.classifier import classify
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import parse_staged, records_of, signature
from harvester.sites import load_sites
from harvester.spiders.counties.beacon import parser as beacon
from tests.sandbox import county
from tests.sandbox.county import County
from tests.sandbox.county_beacon import LOOKS, NO_REPORT, NOTHING_FOUND, report_of, truth

PAGE = (Path(__file__).parent / "pages" / "beacon_bay.html").read_bytes()
KEY, URL = "05701-010-000", "https://qpublic.schneidercorp.com/Application.aspx?App=BayCountyFL&PageType=Search"
BAY = Source("us-fl-bay", "12005")
SEEN = Provenance(URL, datetime(2026, 1, 31, tzinfo=UTC), "beacon")


def read(body: bytes, key: str = KEY) -> list[CountyRecord]:
    page = beacon.read_report(body, key, URL)
    assert page
    found = records_of(page, BAY, SEEN)
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], records: list[CountyRecord]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def module(title: str, inner: str) -> bytes:
    """A report with one module more."""
    header = f'<div class="module-header"><h2 class="title">{title}</h2></div><div class="module-content">{inner}</div>'
    return PAGE.replace(b"</main>", f"{header}</main>".encode())


def test_a_report_is_read_with_the_sources_own_labels_and_nothing_of_it_is_dropped() -> None:
    (parcel,) = of_kind(Property, read(PAGE))
    assert parcel.key == "us-fl-bay 05701-010-000"
    assert parcel.owner_names == ("O'BRIEN JANE & JOHN", "WU LLC")
    assert parcel.mailing_address == "C/O MÜLLER, 1410 E 11TH ST, PANAMA CITY, FL 32401"
    assert parcel.situs_address == "1410 E 11TH ST PANAMA CITY 32401"
    assert parcel.legal_description == "MILLVILLE LOT 5 BLK 12 ORB 4100 P 77"
    assert (parcel.use_code, parcel.acres, parcel.tax_year) == ("SINGLE FAM (000100)", 0.172, 2025)
    assert (parcel.year_built, parcel.effective_year_built, parcel.living_area_sqft) == (1952, 1990, 1204)
    assert parcel.labels["parcel_id"] == "Parcel ID"
    assert parcel.labels["owner_names"].startswith("Owner Information: Primary Owner + ")
    assert parcel.labels["legal_description"] == "Parcel Summary: Brief Tax Description"
    others = parcel.others
    assert others["Parcel Summary: Sec/Twp/Rng"] == "11-4S-14W"
    assert others["Owner Information: OwnerAddress of owner 2"] == "PO BOX 9"
    assert others["Owner Information: JanuaryOwner"] == "GARCIA PEDRO"
    assert others["Valuation"][0]["Taxable Value"] == "See below"
    assert others["Valuation"][0]["Values"] == "2025 Working Values"
    assert others["Building Information"] == [{"Type": "GARAGE", "Heated Area": "0", "Actual Year Built": "1999"}]
    assert others["Land Information"] == [{"Land Use": "000100 - SFR", "Number of Units": "50", "Unit Type": "FF"}]
    assert others["Permits"][0]["Permit Number"] == "B20-0177"
    assert not [name for name in others if name.startswith("Area Sales")]


def test_links_to_cards_notices_and_the_tax_collector_are_kept_and_buttons_are_not_pressed() -> None:
    (parcel,) = of_kind(Property, read(PAGE))
    notice = "https://qpublic.schneidercorp.com/trim/2025/05701-010-000.pdf"
    assert parcel.others["TRIM Notice: 2025 TRIM Notice (PDF)"] == notice
    collector = "https://collector.example/05701-010-000"
    assert parcel.others["Tax Collector: View Tax Collector"] == collector
    assert "trim2024" not in str(parcel.others)
    (parcel,) = of_kind(Property, read(PAGE.replace(b'href="/trim', b'href="//[/trim')))
    assert not [name for name in parcel.others if name.startswith("TRIM")]


def test_each_year_above_the_values_is_an_assessment_and_a_cell_in_progress_is_no_value() -> None:
    now, before = of_kind(Assessment, read(PAGE))
    assert (now.roll, now.market_value, now.assessed_value) == ("2025", Decimal(192500), Decimal(101200))
    assert (now.land_value, now.improvement_value, now.taxable_value) == (Decimal(40000), Decimal(150000), None)
    assert now.labels["market_value"] == "Valuation: Just (Market) Value"
    assert (before.roll, before.taxable_value) == ("2024", Decimal(48350))


def test_lines_of_the_sales_are_sales_with_the_kind_of_their_deed_its_book_and_page() -> None:
    last, first = of_kind(Sale, read(PAGE))
    assert (last.transfer, last.sale_price, last.deed_type) == ("2019-04-05/4100-77", Decimal(155000), "WD")
    assert (last.grantor, last.grantee, last.qualification) == ("DOE JANE", "O'BRIEN JANE", "Qualified (Q)")
    assert (last.labels["deed_type"], last.labels["book"]) == ("Sales: Instrument", "Sales: Book/Page")
    assert (first.sale_date, first.sale_price, first.book, first.page) == (date(1988, 2, 1), Decimal(0), "1100", "9")
    numbered = PAGE.replace(b"<td>QC</td>", b"<td>1988-7</td>")
    assert [sale.instrument_number for sale in of_kind(Sale, read(numbered))] == ["WD", "1988-7"]


def test_parts_of_a_total_are_on_its_basis() -> None:
    rows = [("Land Value", 50), ("Improvements Value", 90), ("Total Value (Appraised 100%)", 140), ("Land Value", 20)]
    lines = "".join(f"<tr><th>{label}</th><td>${value}</td></tr>" for label, value in [*rows, ("Land Value", 1)])
    table = (
        f"<tr><th>Assessed Year</th><th>2023</th></tr>{lines}<tr><th>Total Value (Assessed 35%)</th><td>$49</td></tr>"
    )
    found = next(each for each in of_kind(Assessment, read(module("Value History", f"<table>{table}</table>")))
                 if each.roll == "2023")  # fmt: skip
    assert (found.market_value, found.market_land_value, found.market_improvement_value) == (140, 50, 90)
    assert (found.assessed_value, found.assessed_land_value, found.land_value) == (49, 20, None)
    assert found.labels["assessed_land_value"] == "Value History: Land Value (Assessed 35%)"


def test_taxes_by_year_are_bills() -> None:
    table = "<tr><th></th><th>2024 Pay 2025</th><th>2023 Pay 2024</th></tr>"
    table += "<tr><th>Total Charged</th><td>$700.10</td><td>$650</td></tr>"
    table += "<tr><th>Balance Due</th><td>$1</td><td>$0</td></tr>"
    first, last = of_kind(TaxBill, read(module("Tax History", f"<table>{table}</table>")))
    assert [(bill.bill, bill.billed, bill.due) for bill in (first, last)] == [
        ("2023", Decimal(650), Decimal(0)),
        ("2024", Decimal("700.1"), Decimal(1)),
    ]


@pytest.mark.parametrize("tag", ["a", "span"])
def test_owners_are_known_by_the_words_of_ids_wherever_they_stand(tag: str) -> None:
    table = (
        f'<table class="tabular-data-two-column"><tr><th><{tag} id="ctlBodyPane_ctl03_ctl01_lnkOwnerName_lblSearch"> WU'
        f' A </{tag}><span id="x_lblAddress"><br>2 OAK ST</span><span id="x_lblCityStateZip"><br>ADA, GA 30265</span>'
        '</th><td><span id="x_lblMultiowner">WU B</span></td></tr></table>'
    )
    begin, end = PAGE.index(b'<div class="block-row">'), PAGE.index(b"</section>", PAGE.index(b"JanuaryOwner"))
    body = PAGE[:begin] + table.encode() + b"</div>" + PAGE[end:]
    (parcel,) = of_kind(Property, read(body))
    assert (parcel.owner_names, parcel.mailing_address) == (("WU A",), "2 OAK ST, ADA, GA 30265")
    assert parcel.labels["owner_names"] == "Owner Information: OwnerName"
    assert parcel.others["Owner Information: Multiowner"] == "WU B"


def test_who_only_gets_the_bill_is_no_owner() -> None:
    first, second = (b'<a id="ctlBodyPane_ctl01_ctl01_rptOwner_ctl0%d' % at for at in range(2))
    (parcel,) = of_kind(Property, read(PAGE.replace(second, b"<strong>Tax Payer</strong>" + second)))
    assert parcel.owner_names == ("O'BRIEN JANE & JOHN",)
    assert parcel.mailing_address == "C/O MÜLLER, 1410 E 11TH ST, PANAMA CITY, FL 32401"
    assert parcel.others["Owner Information: Tax Payer"] == "WU LLC"
    assert parcel.others["Owner Information: OwnerAddress of Tax Payer"] == "PO BOX 9"
    above = PAGE.replace(first, b"<b>Tax Payer</b>" + first).replace(second, b"<b>Owner</b>" + second)
    (parcel,) = of_kind(Property, read(above))
    assert (parcel.owner_names, parcel.mailing_address) == (("WU LLC",), "PO BOX 9")


def test_a_wide_value_is_one_value_and_a_wide_cell_of_a_table_stands_for_its_columns() -> None:
    wide = PAGE.replace(b"<td><div><span>11-4S-14W", b'<td colspan="3"><div><span>11-4S-14W')
    wide = wide.replace(b"<td>Qualified (Q)</td><td>Improved</td>", b'<td colspan="2">Qualified (Q)</td>')
    (parcel,) = of_kind(Property, read(wide))
    assert [name for name, said in parcel.others.items() if said == "11-4S-14W"] == ["Parcel Summary: Sec/Twp/Rng"]
    assert of_kind(Sale, read(wide))[0].grantor == "DOE JANE"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b"Parcel ID", b"Key", "Parcel Summary: Key, Parcel Summary: Location"),
        (b"module-header", b"heading", "lacks: Parcel ID"),
        (b"_sprOwnerName", b"_sprName", "module Owner Information"),
        (b"<td>WD</td>", b"", "Sales has 9 cells"),
        (b'<td class="value-column">See below</td>', b"", "Valuation has 2 cells"),
    ],
)
def test_a_report_without_what_each_has_is_a_changed_layout_that_says_what_is_missing(
    before: bytes, after: bytes, said: str
) -> None:
    with pytest.raises(ParseError) as changed:
        beacon.read_report(PAGE.replace(before, after), KEY, URL)
    assert said in str(changed.value)


def test_the_report_of_another_parcel_is_refused() -> None:
    with pytest.raises(ParseError, match=r"\b7\b.*05701-010-000"):
        beacon.read_report(PAGE, "7", URL)
    assert beacon.read_report(PAGE, "05701010000", URL)
    keyed = PAGE.replace(b"Report: 05701-010-000", b"Report: R0022220")
    assert [record.parcel_id for record in of_kind(Property, read(keyed, "R0022220"))] == [KEY]


@pytest.mark.parametrize("body", [NO_REPORT, NOTHING_FOUND])
def test_a_report_without_its_summary_and_a_search_without_results_say_that_there_is_no_parcel(body: bytes) -> None:
    assert beacon.read_report(body, KEY, URL) is None


@pytest.mark.parametrize(
    "body", [b"", b"<html></html>", b"{}", b"<p>Welcome</p>", NO_REPORT.replace(b"Parcel Summary", b"Sketches")]
)
def test_other_pages_say_nothing_of_a_parcel(body: bytes) -> None:
    with pytest.raises(ParseError):
        beacon.read_report(body, KEY, URL)


def test_a_site_says_where_its_reports_are_by_a_template_or_by_its_tabs() -> None:
    report = (
        "https://qpublic.schneidercorp.com/Application.aspx?AppID=834&LayerID=15170&PageTypeID=4&PageID=6825&KeyValue="
    )
    assert beacon.read_template(PAGE, URL) == report + "{0}"
    assert beacon.read_template(PAGE.replace(b"DefaultReportUrl", b"x"), URL) == report + "{0}"
    with pytest.raises(ParseError, match="DefaultReportUrl"):
        beacon.read_template(PAGE.replace(b"DefaultReportUrl", b"x").replace(b"PageTypeId", b"y"), URL)
    with pytest.raises(ParseError, match="address"):
        beacon.read_template(PAGE.replace(b'"/Application.aspx', b'"//[/Application.aspx'), URL)
    for body in (b"", PAGE.replace(b"mapConfig", b"x"), PAGE.replace(b'"AppId":', b'"AppId"')):
        with pytest.raises(ParseError, match="no mapConfig"):
            beacon.read_template(body, URL)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html><head><title>You are not authorized</title></head><body><img src='data:x'></body></html>"),
        (200, b"<p>Our systems have detected patterns of activity that do not represent regular end users.</p>"),
        (403, b"<title>Attention Required! | Cloudflare</title><h1>Sorry, you have been blocked</h1>"),
        (403, b"<title>Forbidden</title>"),
    ],
)
def test_what_the_vendor_says_to_programs_is_a_refusal_that_nothing_gets_around(status: int, body: bytes) -> None:
    schneider = load_sites().of(URL).outcomes
    answer = HtmlResponse(URL, status=status, body=body, headers={"Content-Type": "text/html"})
    assert classify(answer, Request(URL), schneider.own).outcome is Outcome.BLOCKED
    blocked = schneider.policy_table[Outcome.BLOCKED]
    assert (blocked.retries, blocked.new_identity, blocked.escalate, blocked.breaker) == (0, False, False, True)


@settings(max_examples=40)
@given(st.integers(0, 10**5))
def test_whatever_the_assessor_knows_is_read_in_every_look(number: int) -> None:
    made = County(0)
    parcel = county._parcel(number, Random(number))
    for look in LOOKS:
        made.parcels = [parcel]
        known = {key: of for kind in truth(made, BAY.jurisdiction, [look]).values() for key, of in kind.items()}
        found = {record.key: record.to_document() for record in read(report_of(parcel, look), parcel.parcel_id)}
        assert found.keys() == known.keys()
        for key, of in known.items():
            of.pop("flood_zone", None)
            shown = {name: value for name, value in found[key].items() if name in of}
            assert {name: _plain(value) for name, value in shown.items()} == of


def _plain(value: Any) -> Any:
    value = value.to_decimal() if hasattr(value, "to_decimal") else value
    return list(value) if isinstance(value, tuple) else value


@settings(max_examples=60)
@given(st.binary(max_size=60), st.integers(0, len(PAGE)), st.integers(0, 400))
def test_a_damaged_report_is_read_or_refused_and_never_a_fault(inserted: bytes, at: int, cut: int) -> None:
    body = PAGE[:at] + inserted + PAGE[at + cut :]
    try:
        beacon.read_template(body, URL)
        page = beacon.read_report(body, KEY, URL)
        found = records_of(page, BAY, SEEN) if page else None
    except ParseError:
        return
    assert found is None or found.records or found.rejects


def test_what_is_staged_makes_the_same_records() -> None:
    for record in read(PAGE):
        assert record in parse_staged(record.raw, BAY, SEEN).records


def test_a_report_with_more_buildings_or_owners_looks_like_others() -> None:
    """Else each of them would have its witness asked for."""
    _, begin, garage = PAGE.partition(
        b'<div class="two-column-blocks"><div id="ctlBodyPane_ctl07_ctl01_lstBuildings_ctl01'
    )
    third = begin + garage.partition(b"</div></div>\n</div>\n</section>")[0] + b"</div></div>"
    assert third.count(b"GARAGE") == 1
    more = beacon.read_report(PAGE.replace(begin, third + begin), KEY, URL)
    fewer = beacon.read_report(PAGE, KEY, URL)
    assert more
    assert fewer
    assert len(more.sections) == len(fewer.sections) + 1
    assert signature(more) == signature(fewer)
