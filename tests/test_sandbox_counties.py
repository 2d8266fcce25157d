"""The counties of `harvester sandbox`: what the parsers read of their pages is what they were made from."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harvester.config import Config, read_config
from harvester.items import Provenance, Record
from harvester.items.property import Assessment, Property, Sale, TaxBill
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, joined, records_of
from harvester.sandbox.counties import bills, iasworld, patriot, vgsi
from harvester.sandbox.counties.parcels import Parcel, Town
from harvester.sandbox.counties.server import CRAWLS, PLATFORMS, Counties, serving, write_entries
from harvester.sandbox.environment import settings
from harvester.sites.registry import read_sites
from harvester.spiders.counties.iasworld.parser import read_datalet
from harvester.spiders.counties.saved import read_saved

PARCELS = 60
SOURCE = Source("us-xx-sandbox", "26001", "")
SEEN = Provenance("http://127.0.0.1/", datetime(2026, 1, 2, tzinfo=UTC), "test")


@pytest.fixture
async def counties() -> AsyncIterator[Counties]:
    async with serving(PARCELS) as running:
        yield running


def read(platform: str, page: str, parcel_id: str) -> list[Record]:
    found = read_saved(platform, page.encode(), SOURCE, SEEN, parcel_id)
    assert not found.rejects
    return list(found.records)


def only(records: Sequence[Record], kind: type[Any]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def check_property(records: Sequence[Record], parcel: Parcel) -> None:
    (found,) = only(records, Property)
    assert list(found.owner_names or ()) == list(parcel.owners)
    assert " ".join(str(found.situs_address).split()) == parcel.situs
    assert found.acres == float(parcel.acres)
    assert parcel.mailing[3] in str(found.mailing_address)
    assert not found.unread


@pytest.mark.parametrize("number", range(1, PARCELS + 1))
def test_a_card_of_patriot_says_what_it_was_made_from(number: int) -> None:
    parcel = Town("Mockport", "MA", "01900", PARCELS).parcel(number)
    assert parcel
    records = read("patriot", patriot._card(parcel), str(number))
    check_property(records, parcel)
    (value,) = only(records, Assessment)
    now = parcel.values[0]
    assert (value.tax_year, value.land_value, value.total_value) == (now.year, now.land, now.total)
    sales = [(sale.sale_date, sale.sale_price) for sale in only(records, Sale)]
    assert sales == [(sale.day, sale.price) for sale in parcel.sales[:1]]


@pytest.mark.parametrize("number", range(1, PARCELS + 1))
def test_a_card_of_vgsi_says_what_it_was_made_from(number: int) -> None:
    parcel = Town("Samplefield", "VT", "05000", PARCELS).parcel(number)
    assert parcel
    page = vgsi._page(vgsi._card(parcel)).text
    records = read("vgsi", str(page), str(vgsi.FIRST_PID + number))
    check_property(records, parcel)
    values = {each.tax_year: (each.market_land_value, each.market_value) for each in only(records, Assessment)}
    assert values == {of.year: (of.land, of.total) for of in parcel.values}
    sales = {(sale.sale_date, sale.sale_price) for sale in only(records, Sale)}
    assert sales == {(sale.day, sale.price) for sale in parcel.sales}


@pytest.mark.parametrize("number", range(1, PARCELS + 1))
def test_the_datalets_of_iasworld_say_what_they_were_made_from(number: int) -> None:
    parcel = Town("Pretendville", "PA", "18000", PARCELS).parcel(number)
    assert parcel
    year = f"<input type='hidden' name='hdTaxYear' value='{parcel.values[0].year}'>"

    def datalet(mode: str) -> ParcelPage:
        inner = year + iasworld._banner(parcel) + iasworld._datalets(parcel, mode)
        return read_datalet(str(iasworld._page(inner).text).encode(), SEEN.url)

    pages = [datalet(mode) for mode in iasworld.TABS]
    found = records_of(joined(pages[0], pages[1:]), SOURCE, SEEN)
    assert not found.rejects
    records = list(found.records)
    check_property(records, parcel)
    values = {each.tax_year: (each.land_value, each.total_value) for each in only(records, Assessment)}
    assert values == {of.year: (of.land, of.total) for of in parcel.values}
    sales = {(sale.sale_date, sale.sale_price) for sale in only(records, Sale)}
    assert sales == {(sale.day, sale.price) for sale in parcel.sales}
    billed = {each.tax_year: (each.billed, each.paid, bool(each.pdf_url)) for each in only(records, TaxBill)}
    now, before = bills.bills_of(parcel)
    assert billed == {now.year: (now.billed, 0, True), before.year: (before.billed, before.billed, False)}


def test_parcels_are_the_same_each_time_and_differ() -> None:
    first, second = (Town("Mockport", "MA", "01900", PARCELS).all() for _ in range(2))
    assert first == second
    assert len({parcel.owners for parcel in first}) > PARCELS / 3
    assert Town("Mockport", "MA", "01900", 2).parcel(3) is None


async def test_their_entries_are_entries_of_the_registry_beside_the_user_s_own(
    counties: Counties, tmp_path: Path
) -> None:
    yours = tmp_path / "yours"
    yours.mkdir()
    (yours / "mine.toml").write_text('[mine]\nhosts = ["mine.example"]\n')
    for _ in range(2):  # a second start
        write_entries(counties, tmp_path / "sites", yours)
    sites = read_sites(Config(sites_dir=tmp_path / "sites"))
    assert sites.of("https://mine.example/").name == "mine"
    for host, platform, crawl in zip(counties.hosts, PLATFORMS, CRAWLS, strict=True):
        site = sites.of(f"http://{host}/")
        assert site.property
        assert site.property.platform == platform
        assert f"crawl {platform} -a site={site.name} " in crawl


async def test_a_session_sees_a_parcel_only_after_it_has_agreed_and_searched(counties: Counties) -> None:
    async with httpx2.AsyncClient(base_url=f"http://{counties.hosts[0]}{iasworld.ROOT}", follow_redirects=True) as http:
        asked = await http.get("search/commonsearch.aspx?mode=parid")
        assert "btAgree" in asked.text
        form = await http.post("search/Disclaimer.aspx", data={"__VIEWSTATE": state_in(asked.text), "btAgree": ""})
        assert form.status_code == 404, "it leads to where the form says"
        search = await http.get("search/commonsearch.aspx?mode=parid")
        wanted = {"__VIEWSTATE": state_in(search.text), "inpParid": iasworld.parcel_id_of(7)}
        datalet = await http.post("search/commonsearch.aspx?mode=parid", data=wanted)
        assert f"PARID: {iasworld.parcel_id_of(7)}" in datalet.text
        stale = await http.post("search/commonsearch.aspx?mode=parid", data=wanted | {"__VIEWSTATE": "another"})
        assert stale.status_code == 500


def state_in(page: str) -> str:
    found = re.search(r"id='__VIEWSTATE' value='([^']+)'", page)
    assert found
    return found[1]


async def test_a_port_that_is_in_use_is_passed_over() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server, serving(2, server.sockets[0].getsockname()[1]) as running:
        assert len({*running.hosts, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"}) == 4


@pytest.mark.parametrize("own", ["intranet.example", "intranet.example, 10.0.0.1:8080", ""])
def test_private_hosts_of_the_user_stay_private_hosts_in_the_sandbox(
    own: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARVESTER_PRIVATE_HOSTS", own)
    variables = settings("http://127.0.0.1:1", tmp_path, ["127.0.0.1:2"])
    kept = [each.strip() for each in own.split(",") if each.strip()]
    assert variables["HARVESTER_PRIVATE_HOSTS"].split(",") == ["127.0.0.1:1", "127.0.0.1:2", *kept]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert read_config().private_hosts == variables["HARVESTER_PRIVATE_HOSTS"]


def test_private_hosts_in_a_file_stay_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(Config.model_config, "env_file", ".env")
    monkeypatch.delenv("HARVESTER_PRIVATE_HOSTS", raising=False)
    (tmp_path / ".env").write_text("HARVESTER_PRIVATE_HOSTS=intranet.example\n")
    assert settings("http://127.0.0.1:1", tmp_path)["HARVESTER_PRIVATE_HOSTS"] == "127.0.0.1:1,intranet.example"
