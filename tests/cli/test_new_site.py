"""`harvester sites new` writes the entry of a county from a page of it, and keeps the page."""

import asyncio
import os
import sys
import tomllib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from harvester.cli.new_site import toml_of
from tests.crawling import Answer, Site
from tests.forking import Ran, run

HARVESTER = str(Path(sys.executable).with_name("harvester"))
WORDS = ("--name", "St. Clair's Parish", "--fips", "39163")
SEARCH = b"<html><meta Description content='iasWorld'><title>Search</title></html>"
LAYER = b'{"fields": [{"name": "OBJECTID"}, {"name": "PIN"}]}'
PAGES = {
    "/pt/search/commonsearch.aspx?mode=parid": [
        Answer(302, headers={"Location": "/pt/Search/Disclaimer.aspx?jur=048"})
    ],
    "/pt/Search/Disclaimer.aspx?jur=048": [Answer(200, SEARCH, kind="text/html")],
    "/rest/services/Parcels/MapServer/2?f=json": [Answer(200, LAYER)],
    "/own/search": [Answer(200, b"<title>Our own</title>", kind="text/html")],
}

New = Callable[..., Coroutine[Any, Any, Ran]]


@pytest.fixture
def new(tmp_path: Path) -> New:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
    environment |= {"HARVESTER_ALLOW_PRIVATE_HOSTS": "yes", "HARVESTER_DATA_DIR": str(tmp_path / "data")}

    async def run_it(*words: str, **variables: str) -> Ran:
        command = [HARVESTER, "sites", *words]
        return await asyncio.to_thread(lambda: run(*command, cwd=tmp_path, env=environment | variables))

    return run_it


async def test_the_entry_of_a_page_is_written_and_is_read_from_then_on(new: New, tmp_path: Path) -> None:
    async with Site(PAGES) as site:
        ran = await new("new", f"{site.url}/pt/search/commonsearch.aspx?mode=parid", *WORDS, "--into", "own")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.splitlines()[:2] == ["own/us-oh-st-clairs.toml", "own/us-oh-st-clairs.html"]
        assert "export HARVESTER_SITES_DIR=own" in ran.stdout
        assert (tmp_path / "own/us-oh-st-clairs.html").read_bytes() == SEARCH
        entry = (
            "[us-oh-st-clairs]\n"
            f'hosts = ["{site.name}"]\n'
            "[us-oh-st-clairs.property]\n"
            'name = "St. Clair\'s Parish"\n'
            'fips = "39163"\n'
            'platform = "iasworld"\n'
            f'base_url = "{site.url}/pt/"\n'
            'parameters = { jur = "048" }\n'
        )
        assert (tmp_path / "own/us-oh-st-clairs.toml").read_text() == entry
        shown = await new("show", "us-oh-st-clairs", HARVESTER_SITES_DIR="own")
        assert "iasworld" in shown.stdout
        assert [arrival.path for arrival in site.arrivals] == list(PAGES)[:2], "it is asked once, and robots.txt"

        again = await new("new", f"{site.url}/pt/", *WORDS, HARVESTER_SITES_DIR="own")
        assert (again.returncode, "us-oh-st-clairs.toml" in again.stderr) == (2, True)
        assert (tmp_path / "own/us-oh-st-clairs.toml").read_text() == entry

        layer = f"{site.url}/rest/services/Parcels/MapServer/2/query?where=1=1"
        ran = await new("new", layer, *WORDS, "--id", "us-oh-other", HARVESTER_SITES_DIR="own")
        assert (ran.returncode, ran.stderr, "export" in ran.stdout) == (0, "", False)
        written = (tmp_path / "own/us-oh-other.toml").read_text()
        assert "hosts" not in written, "they are the first entry's"
        assert 'parameters = { parcel_id_field = "PIN" }' in written
        assert (tmp_path / "own/us-oh-other.json").read_bytes() == LAYER


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["{}/own/search", *WORDS], 2, ["/own/search", "arcgis, beacon,"]),
        (["{}/missing", *WORDS], 3, ["/missing", "not_found: HTTP 404"]),
        (["/etc/passwd", *WORDS], 2, ["'/etc/passwd'"]),
        (["http://[::1/", *WORDS], 2, ["'http://[::1/'"]),
        (["{}/pt/", "--name", "Vinton County", "--fips", "9163"], 2, ["'9163'"]),
        (["{}/pt/", "--name", "Franklin County", "--fips", "39049"], 2, ["harvester sites show us-oh-franklin"]),
        (["{}/pt/", *WORDS, "--id", "../x"], 2, ["'../x'"]),
        (["{}/pt/", "--name", "", "--fips", "39163"], 2, ["name"]),
    ],
)
async def test_what_cannot_be_an_entry_is_refused_and_nothing_is_written(
    new: New, tmp_path: Path, words: list[str], code: int, named: list[str]
) -> None:
    async with Site({**PAGES, "/missing": [Answer(404)]}) as site:
        ran = await new("new", *(word.replace("{}", site.url) for word in words), "--into", "own")
    assert (ran.returncode, [name for name in named if name not in ran.stderr]) == (code, []), ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "own").exists()
    assert len(site.arrivals) <= 1


async def test_without_a_folder_of_ones_own_it_asks_for_one(new: New) -> None:
    ran = await new("new", "https://a.example/", *WORDS)
    assert (ran.returncode, "--into FOLDER" in ran.stderr) == (2, True)


@pytest.mark.parametrize("name", ["A\x7fB", "A\x00\x1f\u0085\u2028B", 'a "b" \\c', "Doña Ana \U0001f600"])
def test_a_value_of_an_entry_is_read_as_it_was_given(name: str) -> None:
    assert tomllib.loads(f"table = {toml_of({'name': name})}") == {"table": {"name": name}}
