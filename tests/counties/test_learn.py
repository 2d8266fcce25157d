"""`harvester sites learn` proposes lines of TOML for labels of saved pages that nobody reads."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from harvester.cli.learn_site import learn_command
from harvester.exceptions import UsageError
from harvester.sites.registry import load_sites

ENTRY = """
[us-mi-made-up]
hosts = ["made-up.example"]
[us-mi-made-up.property]
name = "Made-up County"
fips = "26001"
platform = "iasworld"
base_url = "https://made-up.example/"
"""
PAGE = """<table><tr><td class="DataletHeaderTop">PARID: {number}</td></tr></table><table id="Parcel">
<tr><td class="DataletSideHeading">Premise Loc.</td><td class="DataletData">{number} ELM ST</td></tr>
<tr><td class="DataletSideHeading">Title Holders</td><td class="DataletData">DOE JOHN {number}</td></tr>
<tr><td class="DataletSideHeading">Flood</td><td class="DataletData">AE</td></tr></table>"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    entries = tmp_path / "counties"
    entries.mkdir()
    (entries / "mi.toml").write_text(ENTRY)
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(entries))
    for number in (7, 8):
        (tmp_path / f"{number}.html").write_text(PAGE.format(number=number))
    yield tmp_path
    load_sites.cache_clear()


def learn(*words: str) -> str:
    load_sites.cache_clear()
    app = typer.Typer()
    app.command()(learn_command)
    return CliRunner().invoke(app, words, catch_exceptions=False).stdout


def test_lines_that_are_proposed_can_be_copied_and_read_the_field_then(folder: Path) -> None:
    pages = [str(folder / f"{number}.html") for number in (7, 8)]
    said = learn("us-mi-made-up", *pages)
    assert tomllib.loads(said) == {
        "us-mi-made-up": {
            "property": {
                "labels": {"Parcel: Premise Loc.": "situs_address", "Parcel: Title Holders": "owner_names"},
            }
        }
    }
    (flood,) = (line for line in said.splitlines() if "Parcel: Flood" in line)
    assert (flood.startswith("# "), "2 of 2" in flood, "AE" in flood) == (True, True, True)
    (folder / "counties" / "mi.toml").write_text(ENTRY + said)
    again = learn("us-mi-made-up", *pages)
    assert tomllib.loads(again) == {}
    assert "Flood" in again


def test_a_site_or_a_page_that_cannot_be_read_is_told(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"9\.html"):
        learn("us-mi-made-up", str(folder / "9.html"))
    (folder / "9.html").write_text("<p>Welcome")
    with pytest.raises(UsageError, match="banner PARID"):
        learn("us-mi-made-up", str(folder / "9.html"))
    with pytest.raises(UsageError, match=r"us-mi-made-up\b"):
        learn("us-mi-made-upp", str(folder / "7.html"))
