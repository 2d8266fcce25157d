"""What the spiders of property records are asked for: what cannot be meant is refused, with what to do."""

from pathlib import Path

import pytest
from scrapy import Request

from harvester.config import Config
from harvester.exceptions import ParseError, UsageError
from harvester.items import Found, ItemResult
from harvester.jobs.documents import Job, JobItem
from harvester.jobs.ledger import now
from harvester.parsers.counties.columns import CountyColumn, Source
from harvester.parsers.counties.table import Layout
from harvester.spiders.counties.arcgis.spider import ArcgisSpider
from harvester.spiders.counties.arguments import PropertyArguments
from harvester.spiders.counties.conditions import all_of, matching
from harvester.spiders.counties.platform import PlatformSpider
from harvester.spiders.counties.socrata.spider import SocrataSpider
from harvester.spiders.counties.table import TableArguments
from tests.counties.conftest import SITE, Crawls
from tests.counties.test_arcgis import SEEN, page

USAGE = 2
ENTRIES = """
[us-mi-made-up.property]
name = "Made-up County"
fips = "26001"
platform = "arcgis"
base_url = "https://gis.example/arcgis/rest/services/Parcels/MapServer/0"
parameters = { parcel_id_field = "PIN" }
[us-mi-portal.property]
name = "Portal County"
fips = "26003"
platform = "socrata"
base_url = "https://data.example/resource/parcels.json"
[us-mi-deeds.property]
name = "Deeds County"
fips = "26005"
platform = "vgsi"
base_url = "https://gis.vgsi.com/deeds/"
[us-mi-eagle.property]
name = "Eagle County"
fips = "26007"
platform = "eagleweb"
base_url = "https://eagle.example/assessor/"
"""


@pytest.fixture(autouse=True)
def _registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "mi.toml").write_text(ENTRIES)
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path / "registry"))
    monkeypatch.chdir(tmp_path)


def parsed(spider: type[PlatformSpider] = ArcgisSpider, **given: str) -> PropertyArguments:
    arguments = spider.parse_arguments(given)
    assert isinstance(arguments, PropertyArguments)
    return arguments


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"parcels": "1"}, ["site: "]),
        ({"site": "us-mi-made-upp", "all": "yes"}, ["-a site=us-mi-made-upp", "us-mi-made-up?"]),
        ({"site": "nowhere", "all": "yes"}, ["-a site=nowhere", "arcgis"]),
        ({"site": "bluesky", "all": "yes"}, ["-a site=bluesky"]),
        ({"site": "us-mi-deeds", "all": "yes"}, ["Deeds County", "arcgis", "harvester crawl vgsi -a site="]),
        ({"site": "us-mi-eagle", "all": "yes"}, ["Eagle County", "arcgis", "eagleweb"]),
        ({"site": SITE, "parcels": "1", "all": "yes"}, ["parcels", "all=yes"]),
        ({"site": SITE, "all": "perhaps"}, ["all: ", "yes or no"]),
        ({"site": SITE, "parcels": "1", "column": "pin"}, ["column: "]),
        ({"site": SITE, "parcels": "12,1.23E+10"}, ["'1.23E+10'", "shortened"]),
        ({"site": SITE, "parcels": "1,23E+10"}, ["shortened"]),
        ({"site": SITE, "parcels": "4101061.0"}, ["'4101061.0'", "leading zeros"]),
        ({"site": SITE, "parcels": "12-Mar"}, ["'12-Mar'", "date"]),
        ({"site": SITE, "parcels": "Mar-12"}, ["'Mar-12'", "date"]),
        ({"site": SITE, "parcels": "2024-03-12 00:00:00"}, ["'2024-03-12 00:00:00'", "date"]),
        ({"site": SITE, "parcels": '="00123"'}, ["write '00123'"]),
        ({"site": SITE, "parcels": "'00123"}, ["write '00123'"]),
        ({"site": SITE, "parcels": "nan"}, ["'nan'", "empty cell"]),
        ({"site": SITE, "parcels": "#N/A"}, ["'#N/A'", "error"]),
        ({"site": SITE, "parcels": "#####"}, ["'#####'", "error"]),
        ({"site": SITE, "page_rows": "0"}, ["page_rows"]),
        ({"site": SITE, "parcel": "1"}, ["parcel: ", "parcels"]),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_fetched(
    given: dict[str, str], named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.counties.few_spiders")
    with pytest.raises(UsageError) as refused:
        ArcgisSpider.parse_arguments(dict(given))
    assert [name for name in named if name not in str(refused.value)] == [], str(refused.value)


@pytest.mark.parametrize(
    "parcel_id",
    ["007", "1E10", "12-34", "MAR-12", "2024-03-12", "NAN-1", "A01 00000  0001", "1.-2-3", "12.5", "O'HARA", "MARCH-1"],
)
def test_numbers_that_only_look_odd_are_taken_as_they_are(parcel_id: str) -> None:
    (found,) = parsed(site=SITE, parcels=f" {parcel_id} ,").read_parcels()
    assert found.key == parcel_id
    assert ArcgisSpider.check_item(Found("parcel", parcel_id)).key == parcel_id
    with pytest.raises(UsageError, match="shortened"):
        ArcgisSpider.check_item(Found("parcel", "1.2E+11"))


@pytest.mark.parametrize(
    ("name", "text", "column", "named"),
    [
        ("x.csv", "parcel_id,b\n1,2\n1.23E+10,2\n", "", ["Line 3, '1.23E+10'"]),
        ("x.csv", 'parcel_id\n"4,101,061"\n', "", ["'4,101,061'", "commas"]),
        ("x.csv", "a,b\n1,2\n", "", ["`parcel_id`", "-a column=COLUMN", "a, b"]),
        ("x.csv", "a,b\n1,2\n", "c", ["-a column: ", "x.csv", "'c'", "a, b"]),
        ("x.csv", "parcel_id\n", "", ["x.csv", "parcel's number"]),
        ("x.txt", "1\n2\n", "c", ["-a column: ", "text"]),
        ("x.txt", "", "", ["x.txt", "parcel's number"]),
        ("gone.csv", None, "", ["gone.csv"]),
    ],
)
def test_a_file_of_parcels_that_cannot_be_used_is_refused_with_its_lines(
    name: str, text: str | None, column: str, named: list[str]
) -> None:
    if text is not None:
        Path(name).write_text(text)
    with pytest.raises(UsageError) as refused:
        parsed(site=SITE, parcels=f"@{name}", column=column).check_parcels()
    assert [each for each in named if each not in str(refused.value)] == [], str(refused.value)


def test_a_file_of_parcels_is_read_in_every_form_and_its_other_columns_stay_with_the_item() -> None:
    Path("a.csv").write_text("\ufeffparcel_id;owner\n007;A\n", encoding="utf-8")
    Path("b.csv").write_text("PIN,owner\n008,B\n")
    Path("c.jsonl").write_text('{"parcel_id":"009"}\n')
    Path("d.txt").write_text("010\n\n")
    read = [
        list(parsed(site=SITE, parcels=f"@{name}", column=column).read_parcels())
        for name, column in (("a.csv", ""), ("b.csv", "PIN"), ("c.jsonl", ""), ("d.txt", ""))
    ]
    assert [[found.key for found in each] for each in read] == [["007"], ["008"], ["009"], ["010"]]
    assert read[0][0].input == {"parcel_id": "007", "owner": "A"}


def test_the_same_file_is_the_same_harvest_and_another_content_is_another() -> None:
    def scope() -> str:
        return ArcgisSpider.scope_of(parsed(site=SITE, parcels="@a.txt"))

    Path("a.txt").write_text("1\n")
    first = scope()
    assert scope() == first
    Path("a.txt").write_text("2\n")
    assert scope() != first
    assert ArcgisSpider.scope_of(parsed(site=SITE, all="yes")) == ArcgisSpider.scope_of(
        parsed(site=SITE, all="yes", page_rows="10")
    )
    kept = parsed(site=SITE, parcels="@a.txt").kept()
    assert "parcels" not in kept
    assert isinstance(ArcgisSpider.Arguments(**kept), TableArguments)


def test_a_platform_that_lists_no_parcels_wants_them_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArcgisSpider, "ALL", "")
    with pytest.raises(UsageError, match="-a all=yes"):
        parsed(site=SITE, all="yes")


def test_a_datasets_address_without_its_id_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\bid\b"):
        parsed(SocrataSpider, site="us-mi-portal", all="yes")


def test_the_item_of_a_table_knows_the_host_that_it_is_fetched_from() -> None:
    assert ArcgisSpider.site_of(Found("table", SITE, {"site": SITE})) == "gis.example"
    assert ArcgisSpider.site_of(Found("parcel", "1", {"site": SITE})) == ""  # a column of somebody's file


def test_an_item_of_a_jurisdiction_that_is_in_the_registry_no_more_fails_with_a_reason(config: Config) -> None:
    spider = ArcgisSpider(config, parsed(site=SITE, all="yes"))
    for job, site in (("j1", SITE), ("j2", "us-mi-gone")):
        known = Job(id=job, spider="arcgis", scope="", number=1, created_at=now())
        spider.jobs[job], spider._arguments[job] = known, (known.arguments, TableArguments(site=site))
    (asked,) = spider.requests_of([JobItem("i1", "j1", "parcel", "1", {}, 0, 1, "")])
    assert isinstance(asked, Request)
    assert asked.url == "https://gis.example/arcgis/rest/services/Parcels/MapServer/0?f=json"
    (said,) = spider.requests_of([JobItem("i2", "j2", "parcel", "1", {}, 0, 1, "")])
    assert isinstance(said, ItemResult)
    assert (said.item_id, said.state, said.outcome) == ("i2", "failed", "unknown_site")
    assert said.reason


def test_a_staged_line_is_read_with_the_entry_of_its_jurisdiction() -> None:
    raw = page({"PIN": "1", "OWNER": "A"})
    record = ArcgisSpider.read_staged("property", f"{SITE} 1", raw, SEEN)
    assert record
    assert record.key == f"{SITE} 1"
    assert ArcgisSpider.read_staged("sale", f"{SITE} 2019 1", raw, SEEN) is None
    with pytest.raises(ParseError, match="us-mi-gone"):
        ArcgisSpider.read_staged("property", "us-mi-gone 1", raw, SEEN)


def layout(*columns: CountyColumn, parcel_id_field: str) -> Layout:
    return Layout(columns, Source(SITE, "26001", parcel_id_field))


def test_numbers_are_quoted_as_their_column_wants_it() -> None:
    parcels = [["a", "007"], ["b", "O'HARA"]]
    text = matching(layout(CountyColumn("PIN"), parcel_id_field="PIN"), parcels)
    assert text.condition == "PIN IN ('007','O''HARA')"
    number = matching(layout(CountyColumn("PIN", is_number=True), parcel_id_field="PIN"), parcels)
    assert (number.condition, number.asked, number.impossible) == ("PIN IN (7)", [["a", "7"]], [["b", "O'HARA"]])
    two = layout(CountyColumn("SWIS"), CountyColumn("KEY"), parcel_id_field="SWIS + KEY")
    both = matching(two, [["a", "0101 1.-2 3"], ["b", "0101"]])
    assert both.condition == "((SWIS = '0101') AND (KEY = '1.-2 3'))"
    assert both.impossible == [["b", "0101"]]
    padded = matching(layout(CountyColumn("PIN"), parcel_id_field="PIN"), [["a", "7"]], padded=True)
    assert padded.condition == "(PIN LIKE '7 %' OR PIN LIKE '% 7')"
    assert all_of("", "A = 1") == "A = 1"
    assert all_of("A = 1", "B = 2 OR C = 3") == "(A = 1) AND (B = 2 OR C = 3)"


def test_a_number_of_thousands_of_digits_is_no_parcel_and_spoils_no_other() -> None:
    numbers = layout(CountyColumn("PIN", is_number=True), parcel_id_field="PIN")
    found = matching(numbers, [["a", "9" * 5_000], ["b", "7"]])
    assert (found.condition, found.asked) == ("PIN IN (7)", [["b", "7"]])
    assert [item for item, _ in found.impossible] == ["a"]


async def test_a_crawl_that_is_asked_for_nothing_or_for_mangled_numbers_ends_with_the_exit_code_of_bad_usage(
    crawls: Crawls, tmp_path: Path
) -> None:
    (tmp_path / "sites" / "mi.toml").write_text(ENTRIES)
    (tmp_path / "parcels.txt").write_text("1\n1.23E+10\n")
    assert await crawls.run("arcgis", site=SITE) == USAGE
    for named in ("-a parcels=123,456", "-a parcels=@FILE"):
        assert named in crawls.said
    assert await crawls.run("arcgis", site=SITE, parcels="@parcels.txt") == USAGE
    assert "Line 2, '1.23E+10'" in crawls.said
    assert crawls.items() == []
