"""`harvester sites` finds a jurisdiction, and says what is known of it and what is not."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from harvester.exceptions import UsageError
from harvester.sites import load_sites
from tests.forking import Ran, run

HARVESTER = str(Path(sys.executable).with_name("harvester"))
OWN = """
[us-oh-ross]
hosts = ["gis.ross.example"]
[us-oh-ross.politeness]
window_requests = 60
window_s = 120
obey_robots = false
robots_reason = "the auditor, by letter"
[us-oh-ross.breaker]
probes = 2
[us-oh-ross.property]
name = "Ross County"
fips = "39141"
platform = "vgsi"
base_url = "https://gis.ross.example/"
disclaimer = "accepted by Ann on 2026-01-31"
bulk_download = "https://gis.ross.example/all.zip"
checked = 2026-02-01
notes = "Slow at noon."

[news]
hosts = ["news.example", "*.news.example"]
"""
SETTINGS = "from harvester.settings import *\nSPIDER_MODULES = ['own_spiders']\n"
SPIDERS = "from scrapy import Spider\n\nclass Vgsi(Spider):\n    name = 'vgsi'\n"

Sites = Callable[..., Ran]


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    """The command, in a project with one spider, where two sites of the user's own are registered."""
    files = {
        "scrapy.cfg": "[settings]\ndefault = own_settings\n",
        "own_settings.py": SETTINGS,
        "own_spiders.py": SPIDERS,
    }
    for name, text in {**files, "sites/own.toml": OWN}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    environment = {**os.environ, "HARVESTER_SITES_DIR": str(tmp_path / "sites"), "PYTHONPATH": str(tmp_path)}
    environment.pop("SCRAPY_SETTINGS_MODULE", None)
    return lambda *words, **variables: run(HARVESTER, *words, cwd=tmp_path, env={**environment, **variables})


def test_all_sites_are_listed_each_on_a_line(sites: Sites) -> None:
    ran = sites("sites", "list")
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[1].split() == ["us-oh-ross", "vgsi", "2026-02-01", "Ross", "County"]
    assert lines[2].split() == ["news", "news.example,", "*.news.example"]
    assert [line.split()[0] for line in lines[3:]] == [site.name for site in load_sites()]


def test_those_of_a_state_and_a_platform_are_listed(sites: Sites) -> None:
    listed = json.loads(sites("sites", "list", "--state", "oh", "--platform", "iasworld", "--json").stdout)
    assert {row["state"] for row in listed} == {"OH"}
    assert listed[0] == {
        "id": "us-oh-butler",
        "hosts": ["propertysearch.bcohio.gov"],
        "state": "OH",
        "name": "Butler County",
        "fips": "39017",
        "platform": "iasworld",
        "base_url": "https://propertysearch.bcohio.gov/",
        "checked": None,
    }
    assert sites("sites", "list", "--state", "AS").stdout == "None.\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["39049"], ["us-oh-franklin"]),
        (["ohio", "Franklin"], ["us-oh-franklin"]),
        (["prince georges"], ["us-md-prince-georges"]),
        (["St. Louis", "mn"], ["us-mn-st-louis"]),
        (["ross", "39"], ["us-oh-ross"]),
        (["news.example"], ["news"]),
        (["ranklin", "oh"], []),
    ],
)
def test_a_site_is_found_by_state_name_and_fips_code(words: list[str], found: list[str], sites: Sites) -> None:
    assert [row["id"] for row in json.loads(sites("sites", "find", *words, "--json").stdout)] == found


def fields_of(shown: str) -> dict[str, str]:
    """What `sites show` prints beside each of its labels."""
    return dict(re.findall(r"^  (\S+(?: \S+)*) {2,}(.+)$", shown, re.MULTILINE))


def test_a_site_that_nobody_has_checked_says_so(sites: Sites) -> None:
    ran = sites("sites", "show", "us-ct-westport")
    name = "Town of Westport, Connecticut"
    assert ran.stdout.startswith(f"us-ct-westport: {name}\n"), ran.stderr
    shown = fields_of(ran.stdout)
    assert (shown["FIPS"], shown["address"]) == ("0900183500", "https://gis.vgsi.com/westportct/")
    assert "never" in shown["checked"]
    assert "accepted" not in shown["consent"]
    assert "vgsi" in shown["hosts"]
    assert "vgsi" in shown["politeness"]
    assert re.findall(r"\d[\d.]*", shown["politeness"]) == ["0.5", "2"]
    assert "robots.txt" in shown["politeness"]
    assert shown["file"].endswith("sites/us/ct.toml")
    assert "harvester crawl vgsi -a site=us-ct-westport -a parcels=@FILE\n" in ran.stdout


def test_a_site_says_all_that_its_entry_says_and_where_it_stands(sites: Sites, tmp_path: Path) -> None:
    shown = fields_of(sites("sites", "show", "us-oh-ross").stdout)
    entry = tomllib.loads(OWN)["us-oh-ross"]
    for label, field in (("consent", "disclaimer"), ("bulk", "bulk_download"), ("notes", "notes")):
        assert shown[label] == entry["property"][field]
    assert (shown["hosts"], shown["file"]) == ("gis.ross.example", f"{tmp_path}/sites/own.toml")
    assert "2026-02-01" in shown["checked"]
    assert re.findall(r"\d[\d.]*", shown["politeness"]) == ["2", "60", "120", "4"]
    assert entry["politeness"]["robots_reason"] in shown["politeness"]
    assert "breaker" in shown.values()
    kept = json.loads(sites("sites", "show", "us-oh-ross", "--json").stdout)
    assert kept["property"]["checked"] == "2026-02-01"
    assert kept["breaker"] == {"probes": 2}
    assert kept["command"] == "harvester crawl vgsi -a site=us-oh-ross -a parcels=@FILE"


def test_an_entry_that_replaces_a_packaged_one_is_shown_in_its_place(sites: Sites, tmp_path: Path) -> None:
    own = tmp_path / "sites" / "meigs.toml"
    own.write_text(OWN.partition("[news]")[0].replace("ross", "meigs"), "utf-8")
    kept = json.loads(sites("sites", "show", "us-oh-meigs", "--json").stdout)
    assert (kept["file"], kept["property"]["platform"]) == (str(own), "vgsi")
    assert [row["platform"] for row in json.loads(sites("sites", "find", "us-oh-meigs", "--json").stdout)] == ["vgsi"]


def test_what_no_spider_reads_is_said(sites: Sites) -> None:
    shown = sites("sites", "show", "us-oh-franklin").stdout
    assert "iasworld" in shown.splitlines()[-1]
    assert "harvester crawl" not in shown
    assert "harvest" not in sites("sites", "show", "news").stdout.lower()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["show", "us-oh-frankln"], ["'us-oh-frankln'", "us-oh-franklin"]),
        (["show", "39049"], ["'39049'", "harvester sites find"]),
        (["list", "--state", "OZH"], ["--state", "'OZH'", "OH"]),
        (["list", "--state", "9"], ["--state", "'9'", "AL, AK, AZ,"]),
        (["list", "--platform", "vgis"], ["--platform", "'vgis'", "vgsi"]),
        (["find", "."], ["state", "name", "FIPS"]),
    ],
)
def test_what_there_is_not_is_refused_with_what_is_meant(words: list[str], named: list[str], sites: Sites) -> None:
    ran = sites("sites", *words)
    assert ran.returncode == UsageError.exit_code
    assert [name for name in named if name not in ran.stderr] == [], ran.stderr


def test_ids_are_completed(sites: Sites) -> None:
    asked = {"COMP_WORDS": "harvester sites show us-oh-ro", "COMP_CWORD": "3", "_HARVESTER_COMPLETE": "complete_bash"}
    assert sites(**asked).stdout.split() == ["us-oh-ross"]
