"""`scrapy crawl -o` writes what was stored, in each format, and says so when it cannot."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from itemadapter import ItemAdapter
from pyarrow import parquet
from pymongo.database import Database
from scrapy import Field, Item
from scrapy.exporters import BaseItemExporter, CsvItemExporter
from scrapy.utils.test import get_crawler

from harvester.addon import COMPONENTS
from harvester.exceptions import StorageError, UsageError
from harvester.items import Provenance
from harvester.items.adapter import register
from harvester.items.bluesky import Follow, Post
from harvester.stores.exporters import CsvFeed, JsonFeed, JsonLinesFeed, ParquetFeed, XmlFeed
from harvester.stores.feeds import RecordFeeds
from tests.crash.harvest import Harvest
from tests.sandbox.process import Sandbox

Document = dict[str, Any]
COLLECTIONS = {"profile": "profiles", "follow": "follows", "post": "posts", "repost": "reposts"}
WISHES = {"depth": "1", "collect": "graph,profiles,posts"}
_SETTINGS = {"FEED_EXPORTERS": COMPONENTS["FEED_EXPORTERS"]}
AT = datetime(2026, 1, 31, 12, 30, 15, 250_000, UTC)


@pytest.fixture(scope="module")
def site() -> Iterator[Sandbox]:
    with Sandbox(accounts=12, posts=6) as site:
        yield site


@pytest.fixture
def harvest(site: Sandbox, tmp_path: Path, mongodb: Database[Document], mongodb_uri: str, redis_url: str) -> Harvest:
    return Harvest(site, tmp_path, mongodb_uri, mongodb.name, {"HARVESTER_REDIS_URL": redis_url}, **WISHES)


@pytest.fixture
def of_one_account(harvest: Harvest) -> Harvest:
    """A small harvest."""
    harvest.command += ["-a", "depth=0"]
    return harvest


def stored(mongodb: Database[Document]) -> set[tuple[str, str]]:
    """Kind and `_id` of all records."""
    return {(kind, row["_id"]) for kind, name in COLLECTIONS.items() for row in mongodb[name].find({}, {"_id": 1})}


def named(rows: list[Document]) -> set[tuple[str, str]]:
    """Kind and `_id` of each. One that was met twice, as a post in two threads, is in the file twice."""
    return {(row["kind"], row["_id"]) for row in rows}


def _row(rows: list[Document], key: str) -> Document:
    return next(row for row in rows if row["_id"] == key)


def test_every_record_that_was_stored_is_in_the_file_in_each_format(
    harvest: Harvest, tmp_path: Path, mongodb: Database[Document]
) -> None:
    for name in ("all.jsonl", "all.json", "all.csv", "all.parquet"):
        harvest.command += ["-O", name]
    assert harvest.run() == 0, harvest.said
    expected = stored(mongodb)
    assert {kind for kind, _ in expected} == set(COLLECTIONS)
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text("utf-8").splitlines()]
    assert named(lines) == expected
    assert named(json.loads((tmp_path / "all.json").read_text("utf-8"))) == expected
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        in_csv = list(csv.DictReader(file))
    assert named(in_csv) == expected
    in_parquet = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert named(in_parquet) == expected

    post = mongodb["posts"].find_one({"facets": {"$ne": None}, "indexed_at": {"$ne": None}})
    assert post
    line, cells, values = (_row(rows, post["_id"]) for rows in (lines, in_csv, in_parquet))
    assert line["text"] == cells["text"] == values["text"] == post["text"]
    assert line["like_count"] == int(cells["like_count"]) == values["like_count"] == post["like_count"]
    assert line["facets"] == json.loads(cells["facets"]) == json.loads(values["facets"]) == post["facets"]
    assert datetime.fromisoformat(line["indexed_at"]) == datetime.fromisoformat(cells["indexed_at"])
    assert values["indexed_at"] == post["indexed_at"].replace(tzinfo=UTC)
    assert line["provenance"]["url"] == cells["provenance.url"] == values["provenance.url"]
    assert "raw" not in line


def test_a_second_run_adds_to_lines_and_leaves_a_table_as_it_is(of_one_account: Harvest, tmp_path: Path) -> None:
    harvest = of_one_account
    plain = list(harvest.command)
    harvest.command += ["-o", "all.jsonl"]
    assert harvest.run() == 0, harvest.said
    first = (tmp_path / "all.jsonl").read_bytes()
    assert harvest.run() == 0, harvest.said
    assert (tmp_path / "all.jsonl").read_bytes().startswith(first)
    (tmp_path / "all.csv").write_text("mine\n")
    harvest.command = [*plain, "-o", "all.csv"]
    assert harvest.run() == UsageError.exit_code
    for named in ("all.csv", "-O"):
        assert named in harvest.said
    assert (tmp_path / "all.csv").read_text() == "mine\n"


def test_a_table_is_not_continued_whatever_its_name_is_made_of(harvest: Harvest, tmp_path: Path) -> None:
    (tmp_path / "bluesky.csv").write_text("mine\n")
    harvest.command += ["-o", "%(name)s.csv"]
    assert harvest.run() == StorageError.exit_code, harvest.said
    for named in ("bluesky.csv", "-O"):
        assert named in harvest.said
    assert (tmp_path / "bluesky.csv").read_text() == "mine\n"


def test_a_bucket_of_s3_takes_them_too(
    of_one_account: Harvest, mongodb: Database[Document], s3: Any, bucket: str, s3_server: dict[str, str]
) -> None:
    harvest = of_one_account
    harvest.environment |= s3_server
    harvest.command += ["-O", f"s3://{bucket}/all.jsonl", "-O", f"s3://{bucket}/all.parquet"]
    assert harvest.run() == 0, harvest.said
    lines = s3.get_object(Bucket=bucket, Key="all.jsonl")["Body"].read().splitlines()
    assert named([json.loads(line) for line in lines]) == stored(mongodb)
    table = parquet.read_table(io.BytesIO(s3.get_object(Bucket=bucket, Key="all.parquet")["Body"].read()))
    assert named(table.to_pylist()) == stored(mongodb)


@pytest.mark.parametrize("name", ["full.jsonl", "full.parquet"])
def test_a_disk_without_room_fails_the_run_and_costs_no_record(
    name: str, of_one_account: Harvest, tmp_path: Path, mongodb: Database[Document]
) -> None:
    harvest = of_one_account
    (tmp_path / name).symlink_to("/dev/full")
    harvest.command += ["-O", name]
    assert harvest.run() == StorageError.exit_code, harvest.said
    assert "No space left" in harvest.said
    assert stored(mongodb)


def test_feeds_choose_kinds_and_fields(of_one_account: Harvest, tmp_path: Path, mongodb: Database[Document]) -> None:
    harvest = of_one_account
    chosen = {"format": "csv", "overwrite": True, "fields": ["_id", "text"]}
    feeds = {"posts.csv": chosen | {"item_classes": ["harvester.items.bluesky.Post"]}}
    harvest.command += ["-s", f"FEEDS={json.dumps(feeds)}"]
    assert harvest.run() == 0, harvest.said
    with (tmp_path / "posts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert {row["_id"]: row["text"] for row in rows} == {row["_id"]: row["text"] for row in mongodb["posts"].find()}


@pytest.mark.parametrize("where", ["gopher://x.test/all.csv", "s3://b/x.csv"])
def test_a_feed_that_cannot_be_is_refused_before_anything_is_asked(
    where: str, harvest: Harvest, mongodb: Database[Document]
) -> None:
    if where.startswith("s3"):
        harvest.environment["PYTHONPATH"] += f":{harvest.folder}"
        (harvest.folder / "boto3.py").write_text("raise ImportError('there is none')")
    harvest.command += ["-O", where]
    assert harvest.run() == UsageError.exit_code
    assert "(-o, FEEDS)" in harvest.said
    assert mongodb["profiles"].count_documents({}) == 0


def written(feed: Callable[..., BaseItemExporter], items: list[Any], **options: Any) -> bytes:
    file = io.BytesIO()
    exporter = feed(file, **options)
    exporter.start_exporting()
    for item in items:
        exporter.export_item(item)
    exporter.finish_exporting()
    return file.getvalue()


def test_other_items_have_the_columns_of_all_their_fields() -> None:
    items = [{"a": 1, "b": None, "at": AT}, {"a": 2.5, "c": ["x", {"y": "ü"}]}, {"b": "z", "mixed": 1}, {"mixed": "m"}]
    lines = list(csv.reader(io.StringIO(written(CsvFeed, items).decode(), newline="")))
    assert lines == [
        ["a", "b", "at", "c", "mixed"],
        ["1", "", str(AT), "", ""],
        ["2.5", "", "", "['x', {'y': 'ü'}]", ""],
        ["", "z", "", "", "1"],
        ["", "", "", "", "m"],
    ]
    table = parquet.read_table(io.BytesIO(written(ParquetFeed, items)))
    assert [str(field.type) for field in table.schema] == [
        "double", "string", "timestamp[ms, tz=UTC]", "string", "string",
    ]  # fmt: skip
    assert table.column("a").to_pylist() == [1.0, 2.5, None, None]
    assert table.column("mixed").to_pylist() == [None, None, "1", "m"]
    large = parquet.read_table(io.BytesIO(written(ParquetFeed, [{"n": 1}, {"n": 2**70}])))
    assert large.column("n").to_pylist() == ["1", str(2**70)]


def test_a_point_in_the_name_of_a_field_costs_no_value() -> None:
    items = [{"No.": 7, "seen.at": AT, "seen": {"at": "x"}}, {"seen": "y"}]
    lines = list(csv.reader(io.StringIO(written(CsvFeed, items).decode(), newline="")))
    assert lines[1:] == [["7", str(AT), "{'at': 'x'}"], ["", "", "y"]]
    assert parquet.read_table(io.BytesIO(written(ParquetFeed, items))).to_pylist() == [
        {"No.": 7, "seen.at": AT, "seen": '{"at":"x"}'},
        {"No.": None, "seen.at": None, "seen": "y"},
    ]


@pytest.mark.parametrize("kind", [JsonFeed, JsonLinesFeed])
def test_values_that_json_lacks_are_written_as_they_are_staged(kind: type[BaseItemExporter]) -> None:
    item = {"bytes": b"\xff", "took": timedelta(1), "none": float("nan"), "at": AT, "price": Decimal("1.50")}
    [read] = json.loads(b"[" + written(kind, [item]).strip().strip(b"[]") + b"]")
    assert read == {"bytes": "/w==", "took": "P1D", "none": None, "at": "2026-01-31T12:30:15.250000Z", "price": "1.50"}


@pytest.mark.parametrize("kind", [JsonFeed, JsonLinesFeed])
def test_texts_and_numbers_of_types_of_their_own_are_texts_and_numbers(kind: type[BaseItemExporter]) -> None:
    plain = {"text": "a", "whole": 3, "part": 1.5}
    item = {name: type("Own", (type(value),), {})(value) for name, value in plain.items()}
    [read] = json.loads(b"[" + written(kind, [item]).strip().strip(b"[]") + b"]")
    assert read == plain


@pytest.mark.parametrize("number", [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity")])
def test_a_number_that_is_not_finite_is_a_missing_value_in_every_format(number: float | Decimal) -> None:
    items = [{"a": "x", "n": number, "inner": {"n": number}}, {"a": "y", "n": type(number)(1)}]
    assert json.loads(written(JsonLinesFeed, items).splitlines()[0])["n"] is None
    assert json.loads(written(JsonFeed, items))[0]["n"] is None
    cells = list(csv.DictReader(io.StringIO(written(CsvFeed, items).decode(), newline="")))
    assert cells[0]["n"] == ""
    assert parquet.read_table(io.BytesIO(written(ParquetFeed, items))).column("n").to_pylist()[0] is None
    first = ElementTree.fromstring(written(XmlFeed, items))[0]
    assert [first.findtext("n"), first.findtext("inner/n")] == ["", ""]


def test_xml_is_well_formed_whatever_names_and_characters_items_have() -> None:
    item = {"No. of units": "1\0\x0b<&\ud800\ufffe", "7th": ["a\0", {"ü:x": None}], "": True}
    read = ElementTree.fromstring(written(XmlFeed, [item]))[0]
    assert [each.tag for each in read] == ["No._of_units", "_7th", "_"]
    assert read[0].text == "1\ufffd\ufffd<&\ufffd\ufffd"
    assert read[1][0].text == "a\ufffd"
    assert read[2].text == "True"


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]


def test_texts_that_a_spreadsheet_would_run_are_escaped_when_asked_and_numbers_stay_numbers() -> None:
    items = [{"=name": text, "n": -5} for text in FORMULAS]
    for escapes in (False, True):
        content = written(CsvFeed, items, escape_formulas=escapes).decode()
        rows = list(csv.reader(io.StringIO(content, newline="")))
        mark = "'" if escapes else ""
        assert rows == [[f"{mark}=name", "n"], *([f"{mark}{text}", "-5"] for text in FORMULAS)]


def test_csv_is_written_as_the_options_of_its_feed_say() -> None:
    items = [{"a": "ü;1", "b": ["x", "y"]}, {"a": "\u4e00", "b": None}]
    options = {"delimiter": ";", "include_headers_line": False, "join_multivalued": "|", "quotechar": "'"}
    content = written(CsvFeed, items, encoding="latin-1", errors="xmlcharrefreplace", **options)
    assert content == "'ü;1';x|y\r\n'&#19968;';\r\n".encode("latin-1")
    assert written(CsvFeed, [{"a": "ü"}], encoding="utf-16").decode("utf-16") == "a\r\nü\r\n"
    assert written(CsvFeed, [{"a": "ü"}], encoding="utf-8-sig") == b"\xef\xbb\xbfa\r\n\xc3\xbc\r\n"


@pytest.mark.parametrize(
    ("form", "options", "named_in_it"),
    [
        ("csv", {"item_export_kwargs": {"delimitr": ";"}}, "delimitr"),
        ("csv", {"item_export_kwargs": {"delimiter": ";;"}}, "delimiter"),
        ("csv", {"item_export_kwargs": {"errors": "guess"}}, "guess"),
        ("csv", {"encoding": "utf-9"}, "utf-9"),
        ("parquet", {"item_export_kwargs": {"delimiter": ";"}}, "delimiter"),
        ("parquet", {"encoding": "latin-1"}, "encoding"),
        ("jsonl", {"item_export_kwargs": {"delimiter": ";"}}, "delimiter"),
        ("json", {"encoding": "utf-9"}, "utf-9"),
        ("xml", {"item_export_kwargs": {"root": "rows"}}, "root"),
    ],
)
def test_an_option_that_a_format_does_not_have_is_refused_by_its_name(
    form: str, options: Document, named_in_it: str, tmp_path: Path
) -> None:
    feeds = {tmp_path / "out": {"format": form, "overwrite": True, **options}}
    crawler = get_crawler(settings_dict=_SETTINGS | {"FEEDS": feeds})
    with pytest.raises(UsageError, match=named_in_it):
        RecordFeeds(crawler)
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_an_option_that_cannot_be_asks_nothing(harvest: Harvest, mongodb: Database[Document]) -> None:
    feeds = {"out.csv": {"format": "csv", "item_export_kwargs": {"delimitr": ";"}}}
    harvest.command += ["-s", f"FEEDS={json.dumps(feeds)}"]
    assert harvest.run() == UsageError.exit_code
    assert "delimitr" in harvest.said
    assert "Traceback" not in harvest.said
    assert mongodb["profiles"].count_documents({}) == 0


class Book(Item):
    """An item of a project, of which not all fields are filled."""

    title = Field()
    price = Field(serializer=lambda value: f"${value}")
    tags = Field()
    sold = Field()


BOOKS: list[Any] = [
    Book(title="Ähre", price=5, tags=["a", "b"]),
    Book(title=b"bytes", price=1.5, tags=[1, "b"]),
    Book(title={"a": None}, price=True, tags=("a",)),
]


@pytest.mark.parametrize(
    ("items", "options"),
    [
        (BOOKS, {}),
        (BOOKS, {"fields_to_export": ["sold", "tags", "title"]}),
        (BOOKS, {"fields_to_export": {"title": "Title", "other": "Other"}, "join_multivalued": ";"}),
        ([{"a": 1, "b": None}, {"a": [], "b": date(2026, 1, 2)}], {"delimiter": ";", "lineterminator": "\n"}),
        ([{"a": Decimal("1.50"), "b": 'say "no"'}], {"encoding": "utf-16", "include_headers_line": False}),
        ([], {"fields_to_export": ["a"]}),
    ],
)
def test_a_table_of_a_projects_items_is_that_of_scrapy_byte_by_byte(items: list[Any], options: dict[str, Any]) -> None:
    assert written(CsvFeed, items, **options) == written(CsvItemExporter, items, **options)


def test_fields_are_chosen_and_renamed_as_feeds_say() -> None:
    register()
    follow = Follow(
        did="did:plc:a", subject_did="did:plc:b", provenance=Provenance("https://x.test/", AT, "bluesky"), raw=b"{}"
    )
    assert written(CsvFeed, [follow], fields_to_export={"did": "who", "subject_did": "whom"}) == (
        b"who,whom\ndid:plc:a,did:plc:b\n"
    )


def test_a_run_that_stored_nothing_leaves_a_table_that_can_be_read() -> None:
    assert written(CsvFeed, []).strip() == b""
    assert parquet.read_table(io.BytesIO(written(ParquetFeed, []))).num_rows == 0


def test_scrapy_s_tools_see_a_record_as_an_item_that_cannot_be_changed() -> None:
    register()
    post = Post(
        did="did:plc:a",
        uri="at://did:plc:a/app.bsky.feed.post/1",
        cid="c",
        text="t",
        created_at=AT,
        reply_count=0,
        repost_count=0,
        like_count=1,
        quote_count=0,
        provenance=Provenance("https://x.test/", AT, "bluesky"),
        raw=b'{"text":"t"}',
    )
    adapter = ItemAdapter(post)
    assert (adapter["kind"], adapter["_id"], adapter["like_count"]) == ("post", post.uri, 1)
    assert datetime.fromisoformat(adapter["created_at"]) == AT
    assert "raw" not in adapter
    with pytest.raises(TypeError, match="changed"):
        adapter["text"] = "u"
