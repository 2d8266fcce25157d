"""The jurisdictions that harvester brings along: of all platforms, a few lines each, and parsed only when asked for."""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from harvester.config import load_config
from harvester.exceptions import UsageError
from harvester.middlewares.proxy import ProxyMiddleware
from harvester.platforms import PARAMETERS, Platform
from harvester.sites import Registry, load_sites
from harvester.sites.property import PropertyRecords
from harvester.sites.registry import packaged_files, sites_of
from harvester.sites.site_file import SiteFile
from tests.root import ROOT

MOST_LINES = 8
"""Of an entry."""
KEYS = tuple(PropertyRecords.model_fields)


def jurisdictions() -> dict[str, PropertyRecords]:
    return {site.name: site.property for site in load_sites() if site.property}


def test_there_are_300_jurisdictions_of_30_states_on_all_platforms_and_whole_states() -> None:
    known = jurisdictions().values()
    assert len({each.fips for each in known if len(each.fips) > 2}) >= 300
    assert len({each.state.code for each in known}) >= 30
    assert {each.platform for each in known} == {*get_args(Platform)}
    assert len({each.fips for each in known if len(each.fips) == 2}) >= 15


def test_the_page_counts_them_as_they_are() -> None:
    local = [each for each in jurisdictions().values() if len(each.fips) > 2]
    places, states = len({each.fips for each in local}), len({each.state for each in local})
    page = (ROOT / "docs" / "counties.md").read_text("utf-8")
    numbers = (places, states, len(get_args(Platform)), len(jurisdictions()) - len(local))
    assert re.search(r"\b{}\b[^.]*\b{}\b[^.]*\b{}\b[^.]*\b{}\b".format(*numbers), page)


@pytest.mark.parametrize(("first", "known"), [("Platform", get_args(Platform)), ("Key of `property`", KEYS)])
def test_the_page_has_every_platform_with_its_parameters_and_every_key(first: str, known: Sequence[str]) -> None:
    table = (ROOT / "docs" / "counties.md").read_text("utf-8").partition(f"| {first} |")[2].partition("\n\n")[0]
    rows = {row[1]: row[0] for row in re.finditer(r"^\| `(\w+)` \|.*$", table, re.MULTILINE)}
    assert sorted(rows) == sorted(known)
    for platform in {*get_args(Platform)} & {*rows}:
        assert [name for name in PARAMETERS[platform] if f"`{name}`" not in rows[platform]] == []


def test_no_two_entries_are_of_one_jurisdiction_on_one_platform() -> None:
    """But a whole state may have several datasets."""
    local = Counter((each.fips, each.platform) for each in jurisdictions().values() if len(each.fips) > 2)
    assert [key for key, entries in local.items() if entries > 1] == []


def test_an_id_is_the_state_and_the_jurisdiction_and_stands_in_the_file_of_the_state() -> None:
    for file in packaged_files():
        for name, records in [(name, site.property) for name, site in file.sites.items() if site.property]:
            state = records.state.code.lower()
            assert re.fullmatch(rf"us-{state}-[a-z0-9]+(-[a-z0-9]+)*", name)
            assert file.path.name == f"{state}.toml"


def test_nobody_has_checked_an_entry_or_agreed_to_its_terms() -> None:
    assert [name for name, each in jurisdictions().items() if each.checked or each.disclaimer] == []


def test_an_address_leads_to_its_own_site_or_to_a_host_of_many() -> None:
    sites = Registry(packaged=packaged_files())
    for site in sites:
        if site.property:
            found = sites.of(site.property.base_url)
            assert found.name == site.name if site.hosts else found.property is None


def test_a_host_of_a_vendor_is_asked_slowly_whatever_the_town() -> None:
    towns = [each for each in jurisdictions().values() if each.platform == "vgsi"]
    asked = {load_sites().of(town.base_url).name for town in towns}
    assert asked == {"vgsi"}
    assert load_sites().named("vgsi").politeness.concurrency == 2


def test_entries_are_short_sorted_and_apart() -> None:
    for file in packaged_files():
        entries = re.sub(r"^#.*\n\n", "", file.text).rstrip("\n").split("\n\n")
        names = [re.match(r"\[([a-z0-9-]+)", entry) for entry in entries]
        assert [name and name[1] for name in names] == sorted(tomllib.loads(file.text))
        assert max(entry.count("\n") + 1 for entry in entries) <= MOST_LINES


def test_an_entry_is_parsed_only_when_it_or_its_host_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process loads the registry, and hardly any asks for a county."""
    files = [SiteFile(file.path) for file in packaged_files()]
    sites = Registry(packaged=files)

    def parsed() -> list[str]:
        return [file.path.name for file in files if "sites" in vars(file)]

    assert sites.of("https://public.api.bsky.app/xrpc").name == "public.api.bsky.app"
    assert list(sites.having("identities")) == []
    with pytest.raises(NotConfigured):
        ProxyMiddleware(get_crawler(), load_config(), sites)
    assert parsed() == []
    assert sites.of("https://property.franklincountyauditor.com/_web/search").name == "us-oh-franklin"
    assert sites.named("us-tx-bexar").property
    assert parsed() == ["oh.toml", "tx.toml"]


def test_two_packaged_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for path in paths:
        path.write_text(f"[a]\nhosts = ['{path.stem}.example']", "utf-8")
    with pytest.raises(UsageError, match=r"\[a\] .*one\.toml.*two\.toml"):
        list(Registry(packaged=[SiteFile(path) for path in paths]))
    paths[1].write_text("[b]\nhosts = ['one.example']", "utf-8")
    with pytest.raises(UsageError, match=r"one\.example.*\[a\].*\[b\]"):
        sites_of(SiteFile(path) for path in paths)


def test_own_entries_add_and_replace_jurisdictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.toml").write_text(
        """
        [us-oh-franklin.property]
        name = "Franklin County"
        fips = "39049"
        platform = "arcgis"
        base_url = "https://gis.franklin.example/server/rest/services/Parcels/MapServer/0"

        [us-oh-vinton.property]
        name = "Vinton County"
        fips = "39163"
        platform = "vgsi"
        base_url = "https://gis.vgsi.com/vintonoh/"

        [mine]
        hosts = ["propertysearch.bcohio.gov", "*.summitoh.net"]
        """,
        "utf-8",
    )
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    sites = load_sites()
    franklin, vinton = sites.named("us-oh-franklin"), sites.named("us-oh-vinton")
    assert franklin.property
    assert (franklin.property.platform, franklin.hosts) == ("arcgis", ())
    assert vinton in sites.having("property")
    assert [site.name for site in sites if site.name == "us-oh-franklin"] == ["us-oh-franklin"]
    replaced = "https://property.franklincountyauditor.com/_web/"
    assert sites.of(replaced).name == "property.franklincountyauditor.com"
    assert sites.of("https://propertysearch.bcohio.gov/").name == "mine"
    assert sites.of("https://propertyaccess.summitoh.net/").name == "mine"
    assert sites.named("us-oh-butler").property
