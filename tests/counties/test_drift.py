"""A site that changes its pages is noticed, and nothing wrong is stored; a vacant lot is no change."""

import json
import re
from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from scrapy import Request
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from harvester.exceptions import ParseError
from harvester.internal_meta import NO_PROOF
from harvester.items import Provenance
from harvester.items.property import Property
from harvester.meta import JOB
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.drift import LEARNT, KnownTable, Pages, Signature, difference, signature_of
from harvester.parsers.counties.sections import ParcelPage, joined, records_of, signature
from harvester.parsers.counties.table import PageRows
from harvester.platforms import Platform
from harvester.spiders.counties.arcgis import parser as arcgis
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.saved import read_page
from harvester.spiders.counties.socrata import parser as socrata
from harvester.spiders.counties.vgsi import parser as vgsi
from harvester.spiders.counties.vgsi.records import read_card
from harvester.spiders.counties.witness import Doubt, Witnesses
from harvester.spiders.labels import NEW_LABELS
from tests.counties.conftest import SITE
from tests.counties.drifts import CHANGES, DRIFTING, NO_PARCEL
from tests.sandbox import county_beacon, county_devnet, county_eagleweb, county_esearch, county_pacs, county_patriot
from tests.sandbox.county import County, Parcel, changed
from tests.sandbox.county_iasworld import TABS, Line, sections
from tests.sandbox.county_portal import Changes
from tests.sandbox.county_tables import DATASET, LAYER, ArcgisTable, CountyTable, SocrataTable
from tests.sandbox.vision import VisionTown, card_of

SEEN = Provenance("https://county.example/", datetime(2026, 1, 31, tzinfo=UTC), "vgsi")
SOURCE = Source(SITE, "26001")
PARCELS = 60
"""That are read before the site changes."""
KEPT = 4 * PARCELS
"""Pages of a site that are read once: its parcels are asked for in each test, as they were and as they are then."""
Card = Callable[[str, Changes], tuple[Signature, PageRows]]


crawler = cache(get_crawler)
"""Whose settings all statistics read."""


class Crawl:
    """Asks for parcels as a spider does, of one process, without the frontier."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.stats = MemoryStatsCollector(crawler())
        self.witnesses = Witnesses(self.stats)
        self.asked = 0

    def read(self, parcel_id: str, changes: Changes, doubt: list[Any] | None = None) -> list[Any]:
        """What is stored of a parcel, but for its labels. Raises ParseError."""
        self.asked += 1
        signature, read = self.card(parcel_id, changes)
        check = self.witnesses.check(page(), parcel_id, signature, read.records, doubt)
        stored = [replace(record, raw=b"", labels={}) for record in read.records] if check.is_right else []
        return stored + (self.read(check.asks[0], changes, check.asks[1]) if check.asks else [])

    def misread(self, parcels: Iterable[str], changes: Changes) -> list[str]:
        """Why parcels were not stored; empty for those that were, as they are."""
        said = []
        for parcel in parcels:
            try:
                stored = self.read(parcel, changes)
            except ParseError as error:
                said.append(str(error))
                continue
            assert stored == [replace(record, raw=b"", labels={}) for record in self.card(parcel, {})[1].records]
            said.append("")
        return said


def ask(witnesses: Witnesses, card: Request, parcel_id: str, look: Signature, doubt: list[Any] | None) -> Any:
    """Which parcel is asked for in place of a card that is stored, and the doubt about it; None: it is stored."""
    check = witnesses.check(card, parcel_id, look, [], doubt)
    if check.is_right and check.asks:  # a control parcel by turns: it is as before
        control, about = check.asks
        witnesses.check(page(), control, frozenset(Doubt(*about).shown), [], about)
    return None if check.is_right else check.asks


def page(job: str = "job") -> Request:
    return Request("https://county.example/", meta={JOB: job})


Site = tuple[Crawl, list[str]]


def read_half(card: Card, parcels: list[str]) -> Site:
    """A crawl that has read a half of them, and the other half."""
    crawl = Crawl(card)
    assert not any(crawl.misread(parcels[:PARCELS], {}))
    return crawl, parcels[PARCELS:]


# Sites ------------------------------------------------------------------------------------------------------------


def town() -> Site:
    """A town on VGSI."""
    cards = {str(pid): card_of(parcel).decode() for pid, parcel in VisionTown(2 * PARCELS).parcels.items()}

    @lru_cache(KEPT)
    def read(page: bytes) -> tuple[Signature, PageRows]:
        found = vgsi.parse_card(page)
        return vgsi.signature(found), read_card(found, SOURCE, SEEN)

    return read_half(lambda pid, changes: read(changed(cards[pid], changes).encode()), list(cards))


def county_on(platform: str, shown: Callable[[Parcel], str | bytes]) -> Site:
    """A county whose parcels are shown on a page each."""
    source = SOURCE._replace(platform=platform)
    return county_of(
        shown, lambda page, number: read_page(platform, page, number, f"{SEEN.url}clientdb/", source), source
    )


def county_of(
    shown: Callable[[Parcel], str | bytes], read: Callable[[bytes, str], ParcelPage | None], source: Source = SOURCE
) -> Site:
    """The same. `read`: a page of a parcel, and the number that was asked for."""
    county = {parcel.parcel_id: shown(parcel) for parcel in county_eagleweb.accounts(2 * PARCELS).parcels}
    pages = {number: page if isinstance(page, str) else page.decode() for number, page in county.items()}

    @lru_cache(KEPT)
    def card(page: bytes, parcel_id: str) -> tuple[Signature, PageRows]:
        found = read(page, parcel_id)
        if found is None:
            raise ParseError(NO_PARCEL)
        return signature(found), records_of(found, source, SEEN)

    return read_half(lambda number, changes: card(changed(pages[number], changes).encode(), number), list(pages))


def portal() -> Site:
    """A county on iasWorld: a parcel has several pages."""
    between = "<!-- another page -->"

    def shown(parcel: Parcel) -> str:
        banner = f'<td class="DataletHeaderTop">PARID: {parcel.parcel_id}</td>'
        return between.join(
            f"<html><body><table><tr>{banner}</tr></table>{sections(tab, Line(parcel, 2025))}"
            for tab in ("profile", *TABS)
        )

    def read(pages: bytes, parcel_id: str) -> ParcelPage:
        first, *others = (
            iasworld.read_datalet(page, "https://county.example/PT/") for page in pages.split(between.encode())
        )
        return joined(first, others)

    return county_of(shown, read)


@cache
def site_on(platform: str) -> Site:
    """A site of the platform, of which a half is read."""
    return {
        "beacon": lambda: county_on("beacon", lambda parcel: county_beacon.report_of(parcel, 0)),
        "devnet": lambda: county_on("devnet", lambda parcel: county_devnet.page_of(parcel, 0)),
        "eagleweb": lambda: county_on("eagleweb", county_eagleweb.assessors_page),
        "esearch": lambda: county_on("esearch", county_esearch.page_of),
        "iasworld": portal,
        "pacs": lambda: county_on(
            "pacs",
            lambda parcel: county_pacs.page_of(county_pacs.Known(parcel.parcel_id, f"0-{parcel.parcel_id}", parcel)),
        ),
        "patriot": lambda: county_on("patriot", lambda parcel: county_patriot.card_of(parcel, parcel.parcel_id[1:])),
        "vgsi": town,
    }[platform]()


@pytest.fixture
def read_town() -> Site:
    return site_on("vgsi")


def check(site: Site, changes: Changes, said: str) -> None:
    """Within 20 parcels it is noticed, and what was stored is right; once it is as before, it goes on."""
    crawl, left = copy(site[0]), site[1]
    misread = crawl.misread(left[:20], changes)
    assert any(said in each for each in misread), misread
    assert not any(crawl.misread(left[20:25], {}))


def copy(crawl: Crawl) -> Crawl:
    found = Crawl(crawl.card)
    found.asked, found.witnesses._pages = crawl.asked, deepcopy(crawl.witnesses._pages)
    return found


CARDS = [platform for platform in CHANGES if platform not in ("arcgis", "socrata")]


@pytest.mark.parametrize(
    ("platform", "changes", "said"),
    [(platform, changes, said) for platform in CARDS for changes, said in CHANGES[platform]],
)
def test_a_site_that_changes_its_pages_is_noticed_and_nothing_wrong_is_stored(
    platform: str, changes: Changes, said: str
) -> None:
    check(site_on(platform), changes, said)


@pytest.mark.parametrize("platform", CARDS)
def test_parcels_that_lack_what_others_have_are_stored_and_cost_little(platform: str) -> None:
    """Some have buildings, sales, several owners; some templates write labels otherwise."""
    crawl, left = site_on(platform)
    crawl = copy(crawl)
    assert crawl.asked < 1.8 * PARCELS, "two more are asked for with each that is of a new kind"
    crawl.asked = 0
    assert not any(crawl.misread(left, {}))
    assert crawl.asked < 1.2 * PARCELS


def test_each_platform_is_changed_in_ten_ways() -> None:
    assert CHANGES.keys() == DRIFTING.keys() == set(get_args(Platform))
    assert all(len(changes) >= 10 for changes in CHANGES.values())


async def test_labels_that_are_new_and_no_sign_of_another_layout_are_told_of(read_town: Site) -> None:
    crawl, left = copy(read_town[0]), read_town[1]
    more = {"<dl>": '<dl><dt><span id="a_lblFloodLabel">Flood 2025</span></dt><dd><span id="a_lblFlood">AE</span></dd>'}
    signature, _ = crawl.card(left[0], more)
    assert ask(crawl.witnesses, page(), left[0], signature, [left[0], sorted(signature)]) is None
    assert crawl.stats.get_value(NEW_LABELS) == ["Flood YEAR [Flood]"]
    assert ask(crawl.witnesses, page(), left[0], signature, None) is None, "it is known from then on"


def test_a_card_that_changes_while_its_witness_is_asked_is_in_doubt_again(read_town: Site) -> None:
    crawl, (pid, *_) = copy(read_town[0]), read_town[1]
    first, _ = crawl.card(pid, {})
    second, _ = crawl.card(pid, {"<th>Owner</th>": "<th>Sale Price</th>", "<th>Sale Price</th>": "<th>Owner</th>"})
    asked = ask(crawl.witnesses, page(), pid, second, [pid, sorted(first)])
    assert asked
    assert asked[0] != pid, "it is not taken: the witness is asked"


def test_what_is_known_of_a_job_is_not_known_of_another_and_begins_anew_when_the_witness_is_gone(
    read_town: Site,
) -> None:
    crawl, (pid, *_) = copy(read_town[0]), read_town[1]
    strange = signature_of([("Something else", "1")])
    asked = ask(crawl.witnesses, page(), pid, strange, None)
    assert asked
    assert asked[1][0] == pid
    assert ask(crawl.witnesses, page("another"), pid, strange, None) is None
    crawl.witnesses.forget(page(), asked[0])
    assert ask(crawl.witnesses, page(), pid, strange, None) is None


def test_while_a_site_is_changed_its_witness_is_asked_once_and_cards_without_what_changed_are_no_proof(
    read_town: Site,
) -> None:
    lot, sold = signature_of([("Owner", "A")]), signature_of([("Owner", "A"), ("Sale", "2024-01-31")])
    changed, witnesses = signature_of([("Owner", "A"), ("Sale", "$1")]), Crawl(read_town[0].card).witnesses
    for number in range(2 * LEARNT):
        assert ask(witnesses, page(), str(number), sold if number % 2 else lot, None) is None
    asked = ask(witnesses, page(), "x", changed, None)
    assert asked
    with pytest.raises(ParseError, match=rf"\b{asked[0]}\b"):
        ask(witnesses, page(), asked[0], changed, asked[1])
    for number in range(5):
        card = page()
        assert ask(witnesses, card, f"lot {number}", lot, None) is None
        assert card.meta[NO_PROOF]
        with pytest.raises(ParseError, match=rf"\b{asked[0]}\b"):
            ask(witnesses, page(), f"sold {number}", changed, None)
    card = page()
    assert ask(witnesses, card, "y", sold, None) is None
    assert NO_PROOF not in card.meta
    again = ask(witnesses, page(), "x", changed, None)
    assert again
    assert again[0] == asked[0], "the site was as before meanwhile"


def test_a_label_that_only_some_have_is_missed_when_so_many_in_a_row_lack_it_as_would_be_no_chance() -> None:
    with_building, without = signature_of([("Owner", "A"), ("Built", "1990")]), signature_of([("Owner", "A")])
    pages = Pages()
    for number in range(100):
        pages.learn(str(number), without if number % 2 else with_building, is_right=False)
    in_a_row = 0
    while not pages.is_strange(without):
        in_a_row += 1
        pages.learn("x", without, is_right=False)
    assert 8 <= in_a_row <= 16
    assert not pages.is_strange(with_building)
    pages.learn("y", without, is_right=True)
    assert not pages.is_strange(without), "the witness has said that it is right"


def test_the_first_pages_are_taken_as_they_are() -> None:
    pages = Pages()
    for number in range(LEARNT):
        page = signature_of([(f"Label {number}", "")])
        assert not pages.is_strange(page)
        assert pages.learn(str(number), page, is_right=False) == []
    assert pages.is_strange(signature_of([("Another", "")]))


def test_what_is_gone_and_what_is_instead_is_said_and_no_more_than_a_few() -> None:
    before = signature_of([("Total", "$1"), ("Day", "2024-01-31"), ("Zone", "")])
    assert difference(before, before | {"More"}) == ""
    other = difference(before, signature_of([("Total", "R1"), ("Day", "2024-01-31"), ("Zone", "")]))
    assert re.findall(r"'(.+?)'", other) == ["Total (a number)", "Total (text)"]
    assert re.findall(r"'(\w+)'", difference(before, signature_of([("Sum", "$1")]))) == ["Day", "Total", "Zone", "Sum"]
    few = difference(map(str, range(8)), Signature())
    assert (re.findall(r"'(\d)'", few), "3 more" in few) == (list("01234"), True)


# Tables -----------------------------------------------------------------------------------------------------------


def read_table(table: CountyTable, offset: int = 0) -> PageRows:
    """A page of 50 rows."""
    if isinstance(table, ArcgisTable):
        asked = f"where=1%3D1&outFields=*&orderByFields=OBJECTID&resultOffset={offset}&resultRecordCount=50"
        return arcgis.parse_page(table.well(f"{LAYER}/query?{asked}").body, SOURCE, SEEN)
    answer = table.well(f"/resource/{DATASET}.json?$limit=50&$offset={offset}")
    described, types = (answer.headers[f"X-SODA2-{what}"].encode() for what in ("Fields", "Types"))
    return socrata.parse_page(answer.body, described, SOURCE, SEEN, types)


@pytest.mark.parametrize(
    ("platform", "changes", "said"),
    [
        (platform, changes, said)
        for platform, name in ((ArcgisTable, "arcgis"), (SocrataTable, "socrata"))
        for changes, said in CHANGES[name]
    ],
)
def test_a_table_that_changes_its_columns_is_noticed_at_its_next_page(
    platform: type[CountyTable], changes: Changes, said: str
) -> None:
    table, look = platform(County(150)), KnownTable()
    for offset in (0, 50):
        assert look.check(read_table(table, offset).columns) == []
    table.change(changes)
    with pytest.raises(ParseError) as noticed:
        look.check(read_table(table, 100).columns)
    assert said in str(noticed.value)


@pytest.mark.parametrize("platform", [ArcgisTable, SocrataTable])
def test_columns_that_change_places_with_their_labels_or_are_added_lead_to_the_same_records(
    platform: type[CountyTable],
) -> None:
    table, look = platform(County(100)), KnownTable()
    before = read_table(table, 50)
    assert look.check(read_table(table).columns) == look.check(before.columns) == []
    moved = dict(reversed(table.columns.items())) | {"EXTRA": "String"}
    table.fill(moved, [row | {"EXTRA": "x"} for row in table.select("*", "1=1")])
    now = read_table(table, 50)
    assert look.check(now.columns) == ["EXTRA"]
    assert look.check(now.columns) == [], "it is told once"

    def plain(rows: PageRows) -> list[Any]:
        others = [
            {"others": each.others | {"EXTRA": "x"}} if isinstance(each, Property) else {} for each in rows.records
        ]
        return [replace(each, raw=b"", **more) for each, more in zip(rows.records, others, strict=True)]

    assert plain(now) == plain(before)


def test_pages_of_vacant_lots_and_of_few_rows_are_no_change() -> None:
    """Zeros and blanks are no values of another kind; nor is a word in a column that had few."""
    columns, source = ["PIN", "YEARBUILT", "MARKETVALUE", "OWNER"], SOURCE._replace(parcel_id_field="PIN")
    look = KnownTable()

    def page(*values: Any, rows: int = 30) -> PageRows:
        return socrata.parse_page(
            json.dumps([dict(zip(columns, (str(n), *values), strict=True)) for n in range(rows)]).encode(),
            json.dumps(columns).encode(),
            source,
            SEEN,
        )

    assert look.check(page("1990", "100", "ADAMS").columns) == []
    for values in (("0", "0.00", ""), ("", "--", "0")):
        assert look.check(page(*values).columns) == []
    assert look.check(page("unknown", "exempt", "7", rows=4).columns) == []
    with pytest.raises(ParseError, match="'YEARBUILT'"):
        look.check(page("unknown", "100", "ADAMS").columns)
    assert look.check(page("unknown", "100", "ADAMS").columns._replace(names=frozenset(), filled={}, read={})) == []
