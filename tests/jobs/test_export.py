"""What a job has brought, as files: every row, with its types, in each format, while the job goes on."""

import csv
import io
import json
import signal
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from bson.decimal128 import Decimal128
from pyarrow import parquet
from pymongo.database import Database
from zstandard import ZstdDecompressor

from harvester.items import bluesky
from harvester.items.base import RECORDS, Record
from harvester.jobs.documents import ITEMS
from harvester.jobs.export import MANIFEST
from harvester.stores.tables import Column, Format, TableFile, columns_of
from tests.jobs.command import Jobs

Document = dict[str, Any]
AT = datetime(2026, 1, 31, 12, 30, 15, 250_000, UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(params=["local", pytest.param("remote", marks=pytest.mark.soak)])
def jobs(request: pytest.FixtureRequest) -> Jobs:
    """All is the same when a controller is asked."""
    jobs: Jobs = request.getfixturevalue(f"{request.param}_jobs")
    return jobs


@pytest.fixture
def job(jobs: Jobs, mongodb: Database[Document]) -> str:
    """Two items: the first has two posts with a picture each and a profile; of another job there is a post, too."""
    job = jobs.submitted('{"key": "1", "note": "a, \\"b\\""}\n{"key": "2"}\n', name="input.jsonl")

    def provenance(of: str, item: str) -> Document:
        return {"url": "https://x.test/1", "fetched_at": AT, "spider": "parcels", "crawl": of, "item": f"{of}:{item}"}

    for name in ("posts", "profiles"):
        mongodb[name].create_index("provenance.item", sparse=True)
    mongodb["posts"].insert_many(
        [
            {
                "_id": f"at://{n}",
                "uri": f"at://{n}",
                "did": "did:plc:ann",
                "text": f'Ärger, "zitiert"\n{n}',
                "langs": ["de"],
                "created_at": AT,
                "like_count": n,
                "pinned": True,
                "media_paths": {"0": f"ann/{n}.jpg"},
                "provenance": provenance(of, item),
            }
            for n, (of, item) in enumerate([(job, "parcel:1"), (job, "parcel:1"), ("another", "parcel:1")])
        ]
    )
    profile = {"_id": "did:plc:ann", "did": "did:plc:ann"}
    mongodb["profiles"].insert_one(profile | {"provenance": provenance(job, "parcel:1")})
    return job


def read(path: Path) -> list[Document]:
    """The rows of a file."""
    if path.suffix == ".parquet":
        rows: list[Document] = parquet.read_table(path).to_pylist()
        return rows
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = ZstdDecompressor().decompressobj().decompress(data)
    text = data.decode()
    if ".csv" in path.suffixes:
        return list(csv.DictReader(io.StringIO(text, newline="")))
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        ((), ".jsonl"),
        (("--zstd",), ".jsonl.zst"),
        (("--format", "csv"), ".csv"),
        (("--format", "csv", "--zstd"), ".csv.zst"),
        (("--format", "parquet"), ".parquet"),
    ],
)
def test_each_format_has_every_record_of_the_job_and_every_item(
    jobs: Jobs, job: str, words: tuple[str, ...], ending: str
) -> None:
    written = jobs("export", job, *words, "--json").json
    folder = jobs.folder / "data" / "exports" / job
    assert {row["path"]: row["rows"] for row in written} == {
        str(folder / f"posts{ending}"): 2,
        str(folder / f"profiles{ending}"): 1,
        str(folder / f"{MANIFEST}{ending}"): 2,
    }
    assert sorted(each.name for each in folder.iterdir()) == sorted(Path(row["path"]).name for row in written)
    posts = read(folder / f"posts{ending}")
    assert [post["_id"] for post in posts] == ["at://0", "at://1"]
    assert posts[1]["text"] == 'Ärger, "zitiert"\n1'
    items = read(folder / f"{MANIFEST}{ending}")
    assert [(item["_id"], item["key"], item["state"]) for item in items] == [
        (f"{job}:parcel:1", "1", "waiting"),
        (f"{job}:parcel:2", "2", "waiting"),
    ]


def test_values_have_the_types_of_their_fields(jobs: Jobs, job: str) -> None:
    jobs("export", job, "--format", "parquet", "--only", "posts")
    (_, post) = read(jobs.folder / "data" / "exports" / job / "posts.parquet")
    assert (post["created_at"], post["like_count"], post["pinned"]) == (AT, 1, True)
    assert (post["provenance.fetched_at"], post["provenance.crawl"]) == (AT, job)
    assert (json.loads(post["langs"]), json.loads(post["media_paths"])) == (["de"], {"0": "ann/1.jpg"})
    assert post["root_uri"] is None
    jobs("export", job, "--format", "csv", "--only", "posts")
    (_, row) = read(jobs.folder / "data" / "exports" / job / "posts.csv")
    assert list(row) == list(post)
    assert (row["created_at"], row["like_count"], row["pinned"]) == ("2026-01-31T12:30:15.250000+00:00", "1", "true")
    assert (row["root_uri"], row["langs"]) == ("", '["de"]')


@pytest.mark.parametrize(
    ("kind", "value"), [(int, True), (float, True), (Decimal, Decimal128("NaN")), (Decimal, Decimal128("Infinity"))]
)
def test_a_value_that_parquet_cannot_hold_in_its_column_is_left_out(tmp_path: Path, kind: type, value: object) -> None:
    file = TableFile(
        tmp_path / "values.parquet", [Column("_id", str), Column("value", kind)], Format.PARQUET, zstd=False
    )
    file.table.write([{"_id": "1", "value": value}, {"_id": "2", "value": 2}])
    file.close()
    file.move()
    assert read(file.path) == [{"_id": "1", "value": None}, {"_id": "2", "value": 2}]


def test_a_carriage_return_in_a_text_ends_no_row_of_csv(tmp_path: Path) -> None:
    file = TableFile(tmp_path / "texts.csv", [Column("_id", str), Column("text", str)], Format.CSV, zstd=False)
    rows = [{"_id": str(n), "text": text} for n, text in enumerate(("a\rb", "\r", "a\r\nb", 'a\r"b"', "a"))]
    file.table.write(rows)
    file.close()
    file.move()
    assert read(file.path) == rows
    assert file.path.read_bytes().endswith(b"\n4,a\n")


def test_a_job_is_in_tables_of_postgresql_however_often_it_is_exported(
    jobs: Jobs, job: str, mongodb: Database[Document], postgres_address: str
) -> None:
    schema = f"test_{uuid4().hex[:8]}"
    words = ("export", job, "--to", postgres_address, "--schema", schema, "--json")
    tables = [
        {"table": f"{schema}.posts", "rows": 2},
        {"table": f"{schema}.profiles", "rows": 1},
        {"table": f"{schema}.{ITEMS}", "rows": 2},
    ]
    first = jobs(*words)
    assert first.code == 0, first.err
    assert sorted(first.json, key=str) == sorted(tables, key=str)
    mongodb["posts"].update_one({"_id": "at://0"}, {"$set": {"text": "new", "provenance.fetched_at": AT + HOUR}})
    mongodb["posts"].update_one({"_id": "at://1"}, {"$set": {"text": "old", "provenance.fetched_at": AT - HOUR}})
    assert sorted(jobs(*words).json, key=str) == sorted(tables, key=str)
    with psycopg.connect(postgres_address, autocommit=True, options=f"-c search_path={schema}") as to:
        posts = to.execute("SELECT _id, text, media_paths FROM posts ORDER BY _id").fetchall()
        assert posts == [("at://0", "new", {"0": "ann/0.jpg"}), ("at://1", 'Ärger, "zitiert"\n1', {"0": "ann/1.jpg"})]
        items = to.execute("SELECT key, state, input ->> 'note' FROM job_items ORDER BY line").fetchall()
        assert items == [("1", "waiting", 'a, "b"'), ("2", "waiting", None)]
        to.execute(f"DROP SCHEMA {schema} CASCADE")


def test_the_manifest_says_of_each_item_where_its_records_and_files_are(
    jobs: Jobs, job: str, mongodb: Database[Document]
) -> None:
    history = [{"attempt": 1, "at": AT, "state": "done", "outcome": "ok", "reason": "", "requests": 2, "records": 3}]
    done = {"state": "done", "outcome": "ok", "attempts": 1, "fed_at": AT, "history": history}
    mongodb["job_items"].update_one({"key": "1"}, {"$set": done})
    jobs("export", job, "--only", "manifest")
    first, second = read(jobs.folder / "data" / "exports" / job / "manifest.jsonl")
    assert first["records"] == {"posts": ["at://0", "at://1"], "profiles": ["did:plc:ann"]}
    assert first["files"] == ["ann/0.jpg", "ann/1.jpg"]
    assert first["input"] == {"key": "1", "note": 'a, "b"'}
    assert (first["outcome"], first["attempts"], first["line"]) == ("ok", 1, 1)
    assert first["fed_at"] == "2026-01-31T12:30:15.250000Z"
    assert first["history"][0]["records"] == 3
    assert (second["records"], second["files"], second["history"]) == ({}, [], None)


def test_records_of_items_that_came_or_went_meanwhile_are_passed_over(
    jobs: Jobs, job: str, mongodb: Database[Document]
) -> None:
    mongodb["posts"].insert_one({"_id": "at://9", "provenance": {"crawl": job, "item": f"{job}:parcel:15"}})
    jobs("export", job, "--only", "manifest")
    items = read(jobs.folder / "data" / "exports" / job / "manifest.jsonl")
    assert [list(item["records"]) for item in items] == [["posts", "profiles"], []]


def test_a_collection_that_is_asked_for_is_written_though_it_is_empty(jobs: Jobs, job: str) -> None:
    jobs("export", job, "--only", "likes", "--format", "csv")
    (path,) = (jobs.folder / "data" / "exports" / job).iterdir()
    assert path.read_text().startswith("_id,")
    assert path.read_text().count("\n") == 1


def test_an_export_replaces_the_one_before(jobs: Jobs, job: str, mongodb: Database[Document]) -> None:
    jobs("export", job, "--only", "posts")
    mongodb["posts"].delete_one({"_id": "at://0"})
    jobs("export", job, "--only", "posts")
    assert [post["_id"] for post in read(jobs.folder / "data" / "exports" / job / "posts.jsonl")] == ["at://1"]


@pytest.mark.parametrize("jobs", ["local"], indirect=True)
@pytest.mark.parametrize("ctrl_c", [signal.default_int_handler, signal.SIG_IGN])
def test_an_export_that_is_told_to_end_leaves_no_part_of_a_file(
    jobs: Jobs, job: str, monkeypatch: pytest.MonkeyPatch, ctrl_c: Any
) -> None:
    def close(file: TableFile) -> None:
        parts.append(file.temporary.exists())
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL, "it would kill the tests"
        signal.raise_signal(signal.SIGTERM)

    parts: list[bool] = []
    monkeypatch.setattr(TableFile, "close", close)
    before = signal.signal(signal.SIGINT, ctrl_c)
    try:
        assert jobs("export", job, "--out", str(jobs.folder / "out")).code == 143
    finally:
        signal.signal(signal.SIGINT, before)
    assert (parts[0], list((jobs.folder / "out").iterdir())) == (True, [])


@pytest.mark.slow
def test_a_job_of_thousands_of_items_is_exported_whole(jobs: Jobs) -> None:
    job = jobs.submitted("".join(f"{number}\n" for number in range(5_001)))
    for form in ("jsonl", "csv", "parquet"):
        out = jobs.folder / form
        jobs("export", job, "--format", form, "--out", str(out))
        keys = [item["key"] for item in read(out / f"manifest.{form}")]
        assert len(keys) == len(set(keys)) == 5_001


@pytest.mark.parametrize("kind", [kind for kind in RECORDS.values() if kind.__module__ == bluesky.__name__])
def test_each_type_of_record_has_a_column_for_each_field_but_raw(kind: type[Record]) -> None:
    names = [column.name for column in columns_of(kind)]
    assert names[0] == "_id"
    assert len(names) == len(set(names))
    fields = {name for name in kind.__struct_fields__ if name not in ("raw", "provenance")}
    assert {name for name in names if "." not in name} == {"_id", *fields}
    assert {"provenance.url", "provenance.fetched_at", "provenance.crawl"} <= set(names)
