"""`harvester sites check` asks for a known parcel, and says what is not as the site's entry says."""

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from harvester.cli.check_site import DIFFERS, NOTHING_CAME, check_command, differences
from harvester.exceptions import UsageError
from tests.counties.conftest import SITE, Crawls
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER
from tests.sandbox.vision import VisionTown

ENTRIES = """
[us-mi-made-up.property]
name = "Made-up County"
fips = "26001"
platform = "vgsi"
base_url = "https://gis.vgsi.com/made-up/"
[us-mi-fields.property]
name = "Fields County"
fips = "26003"
platform = "vgsi"
base_url = "https://gis.vgsi.com/fields/"
check = { parcel = "7", situs_adress = "1 ELM ST" }
[us-mi-pid.property]
name = "Map County"
fips = "26005"
platform = "iasworld"
base_url = "https://map.example/"
check = { parcel = "7" }
[us-mi-eagle.property]
name = "Eagle County"
fips = "26007"
platform = "eagleweb"
base_url = "https://eagle.example/assessor/"
check = { parcel = "7" }
[news]
hosts = ["news.example"]
"""


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["us-mi-made-upp"], ["'us-mi-made-upp'", "us-mi-made-up?"]),
        (["news"], ["check: ", "news"]),
        (["us-mi-made-up"], ["check: ", "us-mi-made-up", "https://gis.vgsi"]),
        (["us-mi-made-up", "1,2"], ["check: ", "'1,2'"]),
        (["us-mi-made-up", "@parcels.csv"], ["check: ", "'@parcels.csv'"]),
        (["us-mi-made-up", "1.23E+10"], ["'1.23E+10'"]),
        (["us-mi-fields"], ["check: ", "'situs_adress'", "situs_address"]),
        (["us-mi-eagle"], ["check: ", "eagleweb"]),
        (["us-mi-pid"], ["Map County", "disclaimer", "https://map.example/"]),
    ],
)
def test_what_cannot_be_checked_is_refused_before_anything_is_asked(
    words: list[str], named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mi.toml").write_text(ENTRIES)
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.counties.few_spiders")
    with pytest.raises(UsageError) as refused:
        check_command(*words)
    assert [name for name in named if name not in str(refused.value)] == [], str(refused.value)


async def test_a_site_is_as_its_entry_says_or_differs_or_does_not_answer(crawls: Crawls, tmp_path: Path) -> None:
    """What is read of a parcel that is not written down yet is shown as it would be written. Nothing is stored."""

    async def check(*words: str) -> Ran:
        command = [HARVESTER, "sites", "check", SITE, *words]
        return await asyncio.to_thread(lambda: run(*command, cwd=tmp_path, env=crawls.environment))

    async with VisionTown(12) as town:
        parcel = next(each for each in town.parcels.values() if each.location)
        crawls.enter("vgsi", town.base_url)
        shown = await check("--parcel", str(parcel.pid))
        assert shown.returncode == 0, shown.stderr
        assert "Labels nobody reads: " in shown.stdout
        assert "'Frontage'" in shown.stdout.partition("\n")[0]
        line, day = shown.stdout.splitlines()[-2:]
        assert f'check = {{ parcel = "{parcel.pid}", situs_address = "{parcel.location}", use_code = ' in line
        assert day.startswith("checked = 20")

        crawls.enter("vgsi", town.base_url, line)
        well = await check()
        assert (well.returncode, well.stderr) == (0, "")
        for named in (SITE, str(parcel.pid), "situs_address, use_code, acres"):
            assert named in well.stdout

        crawls.enter("vgsi", town.base_url, line.replace(parcel.location, "1 NOWHERE ST"))
        differs = await check()
        assert differs.returncode == DIFFERS, differs.stderr
        (told,) = (line for line in differs.stdout.splitlines() if "situs_address: " in line)
        assert (f"'{parcel.location}'" in told, "'1 NOWHERE ST'" in told) == (True, True)
        assert "use_code" not in differs.stdout

        gone = await check("--parcel", "999999")
        assert gone.returncode == NOTHING_CAME, gone.stderr
        assert "no_results: " in gone.stdout
        assert "'999999'" in gone.stdout
    assert crawls.documents("properties") == {}


def test_a_field_that_no_single_value_can_be_like_is_told_as_one_that_differs() -> None:
    found = {"alt_parcel_ids": {"pid": "7"}, "raw": b"<p>", "market_value": Decimal("7.50"), "owner_names": ("A", "B")}
    assert differences({"market_value": 7.5, "owner_names": "a; b"}, found) == []
    parcel_ids, raw = differences({"alt_parcel_ids": "7", "raw": "<p>"}, found)
    assert (parcel_ids.startswith("alt_parcel_ids: {'pid': '7'} "), parcel_ids.endswith(" '7'")) == (True, True)
    assert (raw.startswith("raw: b'<p>' "), raw.endswith(" '<p>'")) == (True, True)
