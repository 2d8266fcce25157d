"""A county that changes what its pages mean is left alone before more than 20 of its parcels are wrong; all are listed.

`pytest -s` prints the table.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import SecretStr
from pymongo.database import Database
from scrapy import Request
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.exceptions import ParseError
from harvester.items.property import CountyRecord
from harvester.meta import JOB
from harvester.parsers.counties.drift import MAX_CONTROLS, MAX_UNPROVEN, KnownCard, KnownTable, Signature
from harvester.parsers.counties.facts import facts_of
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties import controls
from harvester.spiders.counties.arcgis import parser as arcgis
from harvester.spiders.counties.controls import COLLECTION, OLD, ControlStore
from harvester.spiders.counties.witness import STORED_IN_DOUBT, ControlParcelStore, Witnesses
from tests.counties.drifting_pages import COUNTY, KINDS, PAGES, SEEN, Lot, kinds, lots, page_of, read
from tests.sandbox.county import County
from tests.sandbox.county_tables import LAYER, ArcgisTable

PARCELS = 100
AT_ONCE = 4
"""Requests that are under way."""
MOST_MISREAD = 10
"""Pages until the breaker opens."""


@lru_cache(4096)
def page(platform: str, at: int, kind: str) -> tuple[Signature, PageRows] | str:
    """What is read of a parcel's page, or why nothing is."""
    county = county_of()
    try:
        return read(platform, page_of(platform, county[at], county[at - 1], kind), county[at].number)
    except ParseError as error:
        return str(error)


@lru_cache(1)
def county_of() -> list[Lot]:
    return lots(PARCELS)


class Run:
    """A job in a process, whose site changes after so many answers."""

    def __init__(
        self,
        platform: str,
        kind: str,
        begins: int,
        seed: int = 1,
        kept: ControlParcelStore | None = None,
        county: str = "",
    ) -> None:
        self.platform, self.kind, self.begins = platform, kind, begins
        self.stored: dict[str, Sequence[CountyRecord]] = {}
        self.asked, self.misread = 0, list[str]()
        self._stats = MemoryStatsCollector(get_crawler())
        self._witnesses = Witnesses(self._stats, kept)
        self._before = county
        self._places = {lot.number: at for at, lot in enumerate(county_of())}
        waiting = deque[tuple[str, list[Any] | None]]((lot.number, None) for lot in county_of())
        random = Random(seed)
        while waiting and len(self.misread) < MOST_MISREAD:
            batch = [waiting.popleft() for _ in range(min(AT_ONCE, len(waiting)))]
            answers = [(number, doubt, self._answer(number)) for number, doubt in batch]
            random.shuffle(answers)
            for number, doubt, answer in answers:
                if more := self._take(number, doubt, answer):
                    waiting.appendleft(more)

    def _answer(self, number: str) -> tuple[Signature, PageRows] | str:
        self.asked += 1
        return page(self.platform, self._places[number], self.kind if self.asked > self.begins else self._before)

    def _take(self, number: str, doubt: list[Any] | None, answer: tuple[Signature, PageRows] | str) -> Any:
        if isinstance(answer, str):
            self.misread.append(answer)
            return None
        look, rows = answer
        try:
            check = self._witnesses.check(Request("http://x/", meta={JOB: "j"}), number, look, rows.records, doubt)
        except ParseError as error:
            self.misread.append(str(error))
            return None
        if check.is_right:
            self.stored[number] = rows.records
        return check.asks

    @property
    def wrong(self) -> list[str]:
        """Parcels of which something was stored that the county does not say."""
        return [number for number in self.stored if not self._is_right(number)]

    @property
    def listed(self) -> list[str]:
        return list(self._stats.get_value(STORED_IN_DOUBT, []))

    def _is_right(self, number: str) -> bool:
        answer = page(self.platform, self._places[number], self._before)
        assert not isinstance(answer, str), answer
        plain = [
            [replace(each, raw=b"", labels={}) for each in records]
            for records in (self.stored[number], answer[1].records)
        ]
        return facts_of(plain[0]) == facts_of(plain[1])


@pytest.mark.parametrize(("platform", "kind"), list(kinds()))
def test_a_county_that_changes_is_left_alone_before_more_than_twenty_parcels_are_wrong(
    platform: str, kind: str
) -> None:
    for begins in (15, 37):
        run = Run(platform, kind, begins)
        print(
            f"\n{platform:9} {kind:16} after {begins}: wrong {len(run.wrong):2}, listed {len(run.listed):2}, "
            f"asked {run.asked - begins:3} more; {run.misread[-1][:110] if run.misread else 'nothing'}",
            end="",
        )
        assert len(run.wrong) <= MAX_UNPROVEN
        assert set(run.wrong) <= set(run.listed)
        if KINDS[kind]:
            assert not run.wrong


@pytest.mark.parametrize("platform", PAGES)
def test_a_county_that_does_not_change_is_read_to_its_end_for_few_more_requests(platform: str) -> None:
    run = Run(platform, "", 0)
    assert not run.misread
    assert len(run.stored) == PARCELS
    assert not run.wrong
    assert run.asked < 1.3 * PARCELS


class Memory:
    """Keeps control parcels as MongoDB would."""

    def __init__(self, *, is_old: bool = False) -> None:
        self.known: list[KnownCard] = []
        self.is_old = is_old

    def load(self, jurisdiction: str) -> list[KnownCard]:
        return self.known

    def save(self, jurisdiction: str, known: Sequence[KnownCard]) -> None:
        self.known = [each._replace(facts={}, is_old=self.is_old) for each in known]


@pytest.mark.parametrize(("platform", "kind"), [each for each in kinds() if not KINDS[each[1]]])
def test_a_process_that_begins_when_the_site_has_changed_stores_nothing_until_it_is_as_before(
    platform: str, kind: str
) -> None:
    for is_old in (False, platform == "vgsi"):
        kept = Memory(is_old=is_old)
        Run(platform, kind, 40, kept=kept)
        assert len(kept.known) == MAX_CONTROLS
        again = Run(platform, kind, 0, kept=kept)
        assert not again.stored
        assert any(each.parcel_id in again.misread[-1] for each in kept.known)
        whole = Run(platform, "", 0, kept=kept)
        assert len(whole.stored) == PARCELS
        assert not whole.wrong


def test_parcels_that_were_sold_and_a_newer_roll_are_no_change_days_later() -> None:
    kept = Memory(is_old=True)
    Run("iasworld", "", 0, kept=kept)
    sold = kept.known[0]
    kept.known[0] = sold._replace(digests={**sold.digests, "owner_names": "another"})
    kept.known = [
        each._replace(digests={**each.digests, "land_value 2023": "gone", "tax_year": "x"}) for each in kept.known
    ]
    run = Run("iasworld", "", 0, kept=kept)
    assert (len(run.stored), run.wrong, run.misread) == (PARCELS, [], [])


def test_control_parcels_are_kept_for_the_same_parsers_until_the_entry_says_that_the_site_has_changed(
    mongodb: Database[dict[str, Any]], mongodb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(mongodb_uri=SecretStr(mongodb_uri), database=mongodb.name)
    store, place = ControlStore(config), "us-oh-franklin"
    known = KnownCard.of("1-2", Signature(["Owner"]), {"owner_names": "SPECIMEN LENA"})
    assert store.load(place) == []
    store.save(place, [known])
    assert store.load(place) == [known._replace(facts={})]
    document = mongodb[COLLECTION].find_one() or {}
    assert "SPECIMEN" not in str(document), "no fact about anybody"
    mongodb[COLLECTION].update_one({}, {"$set": {"kept_at": document["kept_at"] - 2 * OLD}})
    assert [each.is_old for each in store.load(place)] == [True]
    entry = SimpleNamespace(property=SimpleNamespace(changed=date.today()))
    with monkeypatch.context() as patched:
        patched.setattr(controls, "load_sites", lambda: SimpleNamespace(named=lambda name: entry))
        assert store.load(place) == []
    assert store.load(place)
    mongodb[COLLECTION].update_one({}, {"$set": {"parsers": "others"}})
    assert store.load(place) == []


# Tables -------------------------------------------------------------------------------------------------------------

ROWS = 60
"""Of a page."""
TABLE_CHANGES: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "masked": lambda row: {"OWNER1": "REDACTED", "OWNER2": None},
    "thousands": lambda row: {
        name: value / 1000 for name in ("MARKET_VAL", "LAND_VAL", "TAXABLE_VAL") if (value := row[name])
    },
    "zeroed": lambda row: dict.fromkeys(("MARKET_VAL", "LAND_VAL", "TAXABLE_VAL"), 0),
    "swapped": lambda row: {"SITUS_ADDR": "PO BOX 7, COLUMBUS, OH 43215-0007"},
}


@pytest.mark.parametrize("kind", TABLE_CHANGES)
def test_a_table_whose_values_change_their_meaning_is_noticed_at_its_next_page(kind: str) -> None:
    table, look = ArcgisTable(County(3 * ROWS)), KnownTable()

    def rows_at(offset: int) -> PageRows:
        asked = f"where=1%3D1&outFields=*&orderByFields=OBJECTID&resultOffset={offset}&resultRecordCount={ROWS}"
        return arcgis.parse_page(table.well(f"{LAYER}/query?{asked}").body, COUNTY, SEEN)

    for at in (0, ROWS):
        look.check_records(rows_at(at).records)
    rows = table.select("*", "1=1")
    table.fill(table.columns, [row | TABLE_CHANGES[kind](row) if row["PIN"].strip() else row for row in rows])
    with pytest.raises(ParseError, match="before"):
        look.check_records(rows_at(2 * ROWS).records)


def test_what_most_rows_of_a_table_have_from_the_start_is_no_change() -> None:
    table, look = ArcgisTable(County(3 * ROWS)), KnownTable()
    table.fill(table.columns, [row | {"SALE_PRICE": 0, "OWNER1": "COUNTY"} for row in table.select("*", "1=1")])
    for at in range(3):
        asked = f"where=1%3D1&outFields=*&orderByFields=OBJECTID&resultOffset={at * ROWS}&resultRecordCount={ROWS}"
        look.check_records(arcgis.parse_page(table.well(f"{LAYER}/query?{asked}").body, COUNTY, SEEN).records)
