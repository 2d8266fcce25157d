"""`harvester export` writes what is stored: all of it, or what is asked for, with its types."""

import csv
import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import networkx
import psycopg
import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from pyarrow import parquet
from pymongo import MongoClient
from pymongo.database import Database
from zstandard import ZstdDecompressor

from harvester.exceptions import StorageError, UsageError
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER, Jobs
from tests.postgresql import PASSWORD

Document = dict[str, Any]
Export = Callable[..., Ran]
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
NUMBER = 5000


def fill(mongodb: Database[Document]) -> None:
    """5,000 posts, an hour apart."""
    mongodb["posts"].insert_many(
        {
            "_id": f"at://did:plc:a/app.bsky.feed.post/{n:04}",
            "text": f'Ärger, "{n}"\n',
            "langs": ["de", "en"] if n % 2 else ["en"],
            "like_count": n,
            "pinned": n == 7,
            "created_at": AT + timedelta(hours=n),
            "provenance": {"url": "https://x.test/", "fetched_at": AT + timedelta(hours=n), "spider": "bluesky"},
        }
        for n in range(NUMBER)
    )


@pytest.fixture(scope="module")
def posts(mongodb_uri: str) -> Iterator[Database[Document]]:
    """A database of posts, which tests only read."""
    with MongoClient[Document](mongodb_uri, tz_aware=True) as client:
        name = f"test-{uuid4().hex[:12]}"
        fill(client[name])
        yield client[name]
        client.drop_database(name)


@pytest.fixture
def export(request: pytest.FixtureRequest, tmp_path: Path, mongodb_uri: str, monkeypatch: pytest.MonkeyPatch) -> Export:
    """`harvester export`, in a process of its own, of what the test has stored, or else of the posts."""
    database = request.getfixturevalue("mongodb" if "mongodb" in request.fixturenames else "posts")
    monkeypatch.setenv("HARVESTER_MONGODB_URI", mongodb_uri)
    monkeypatch.setenv("HARVESTER_DATABASE", database.name)
    monkeypatch.chdir(tmp_path)
    return lambda *words: run(HARVESTER, "export", *words, cwd=tmp_path, env=os.environ)


def read(path: Path) -> list[Document]:
    if path.suffix == ".parquet":
        rows: list[Document] = parquet.read_table(path).to_pylist()
        return rows
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = ZstdDecompressor().decompressobj().decompress(data)
    if ".csv" in path.suffixes:
        return list(csv.DictReader(data.decode().splitlines(keepends=True)))
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("name", ["p.jsonl", "p.csv", "p.parquet", "p.jsonl.zst", "p.csv.zst"])
def test_all_records_of_a_kind_are_written(name: str, export: Export, tmp_path: Path) -> None:
    ran = export("posts", "--to", name)
    assert ran.returncode == 0, ran.stderr
    for named in (f"{NUMBER:,} posts", name):
        assert named in ran.stdout
    rows = read(tmp_path / name)
    assert [row["text"] for row in rows] == [f'Ärger, "{n}"\n' for n in range(NUMBER)]
    assert [int(row["like_count"]) for row in rows] == list(range(NUMBER))


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--where", "like_count>=10", "--where", "like_count < 13"], {10, 11, 12}),
        (["--where", "pinned=true"], {7}),
        (["--where", "langs=de", "--where", "like_count<4"], {1, 3}),
        (["--where", "created_at>2026-08-27T18:00"], {4999}),
        (["--where", '{"like_count": {"$in": [1, 4000]}}'], {1, 4000}),
        (["--since", "2026-08-27T18:00:00+00:00"], {4998, 4999}),
        (["--where", "provenance.spider!=bluesky"], set()),
    ],
)
def test_what_is_asked_for_is_written(words: list[str], numbers: set[int], export: Export, tmp_path: Path) -> None:
    ran = export("post", *words, "--to", "some.jsonl")
    assert ran.returncode == 0, ran.stderr
    assert {row["like_count"] for row in read(tmp_path / "some.jsonl")} == numbers


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["pots", "--to", "x.csv"], ["'pots'", "posts"]),
        (["posts", "--to", "x.xlsx"], ["--to", "x.xlsx", ".jsonl, .csv, .parquet"]),
        (["posts", "--to", "x.graphml"], ["--to", "x.graphml"]),
        (["posts", "--where", "likes=3", "--to", "x.csv"], ["--where", "'likes'", "_id, "]),
        (["posts", "--where", "like_count=x", "--to", "x.csv"], ["--where", "'x'", "like_count"]),
        (["posts", "--where", "like_count", "--to", "x.csv"], ["--where", "'like_count'", "FIELD=VALUE"]),
        (["posts", "--where", "{like_count: 3", "--to", "x.csv"], ["JSON"]),
        (["posts", "--where", f"like_count={10**30}", "--to", "x.csv"], ["MongoDB"]),
        (["posts", "--where", "text=\udcff", "--to", "x.csv"], ["MongoDB"]),
        (["posts", "--where", '{"_id": {"$oid": "x"}}', "--to", "x.csv"], ["JSON"]),
        (["posts", "--since", "yesterday", "--to", "x.csv"], ["--since", "'yesterday'"]),
        (["graph", "--since", "2026-01-01", "--to", "x.csv"], ["--where", "--since"]),
        (["posts", "--to", "mysql://ann:secret@db.example/x"], ["--to", "postgresql://"]),
        (["posts", "--to", "postgresql://ann:se@cret@db.example/x"], ["--to", "PostgreSQL"]),
        (["posts", "--schema", "mine", "--to", "x.csv"], ["--schema", "PostgreSQL"]),
        (["graph", "--to", "postgresql://db.example/x"], ["PostgreSQL", "follows"]),
    ],
)
def test_what_cannot_be_done_is_said(
    words: list[str],
    named: list[str],
    export: Export,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = Jobs(tmp_path, {}, monkeypatch, capsys).harvester("export", *words)
    assert answer.code == UsageError.exit_code, answer.err
    assert [name for name in named if name not in answer.err] == [], answer.err
    assert "cret" not in answer.err
    assert not list(tmp_path.glob("*x.*"))


def test_a_file_that_cannot_be_written_leaves_the_former_one(export: Export, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    ran = export("posts", "--to", "nowhere/x.csv")
    assert ran.returncode == StorageError.exit_code
    for named in ("nowhere/x.csv", "No such file"):
        assert named in ran.stderr
    assert export("posts", "--to", "x.jsonl").returncode == 0
    before = (tmp_path / "x.jsonl").read_bytes()
    wrong = export("posts", "--where", '{"$nonsense": 1}', "--to", "x.jsonl")
    assert wrong.returncode != 0
    assert "Traceback" not in wrong.stderr
    assert (tmp_path / "x.jsonl").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "x.jsonl"]


def test_the_graph_has_every_account_and_every_edge(
    export: Export, tmp_path: Path, mongodb: Database[Document]
) -> None:
    mongodb["profiles"].insert_many(
        [
            {"_id": "did:plc:a", "handle": "a.test", "display_name": "A & <B>\x01", "followers_count": 3},
            {"_id": "did:plc:alone", "handle": "alone.test"},
        ]
    )
    edges = {("did:plc:a", f"did:plc:{n}") for n in range(3)} | {("did:plc:0", "did:plc:a")}
    mongodb["follows"].insert_many({"_id": f"{a} {b}", "did": a, "subject_did": b} for a, b in edges)
    ran = export("graph", "--to", "g.graphml")
    assert ran.returncode == 0, ran.stderr
    for named in ("4 edges", "g.graphml"):
        assert named in ran.stdout
    graph = networkx.read_graphml(tmp_path / "g.graphml")
    assert set(graph.edges) == edges
    assert set(graph.nodes) == {node for edge in edges for node in edge} | {"did:plc:alone"}
    assert graph.nodes["did:plc:a"] == {"handle": "a.test", "display_name": "A & <B>", "followers_count": 3}
    assert export("graph", "--to", "g.csv").returncode == 0
    assert {(row["source"], row["target"]) for row in read(tmp_path / "g.csv")} == edges


def test_records_are_rows_of_postgresql_with_their_types(
    export: Export, mongodb: Database[Document], postgres_address: str
) -> None:
    fill(mongodb)
    schema = f"test_{uuid4().hex[:8]}"
    of = {"jurisdiction": "us-oh-ash", "parcel_id": "01 2", "provenance": {"url": "https://x.test/", "fetched_at": AT}}
    mongodb["sales"].insert_one(
        {
            "_id": "s",
            **of,
            "sale_date": "1899-12-31",
            "sale_price": Decimal128("1234.50"),
            "labels": {"book": "B"},
        }
    )
    mongodb["things"].insert_many(
        [{"_id": "a", "price": 2, **of}, {"_id": "b", "price": 2.5, **of}, {"_id": "c", "name": "a\0b", **of}]
    )
    mongodb["posts"].update_one({"like_count": 7}, {"$set": {"created_at": DatetimeMS(-(10**14))}})
    for kind, said in (("posts", f"{NUMBER:,} posts"), ("sale", "1 sale"), ("things", "2 items")):
        ran = export(kind, "--to", postgres_address, "--schema", schema)
        assert ran.returncode == 0, ran.stderr
        assert said in ran.stdout
        assert schema in ran.stdout
        assert PASSWORD not in ran.stdout + ran.stderr
    assert f"{schema}._rejects" in ran.stderr
    with psycopg.connect(postgres_address, autocommit=True, options=f"-c search_path={schema} -c timezone=UTC") as to:
        assert to.execute("SELECT sum(like_count), count(*) FROM posts WHERE langs ? 'en'").fetchall() == [
            (sum(range(NUMBER)), NUMBER)
        ]
        before_christ = to.execute("SELECT created_at = to_timestamp(-100000000000) FROM posts WHERE pinned")
        assert before_christ.fetchall() == [(True,)]
        assert to.execute("SELECT sale_date, sale_price, labels, provenance_fetched_at FROM sales").fetchall() == [
            (date(1899, 12, 31), Decimal("1234.50"), {"book": "B"}, AT)
        ]
        assert to.execute("SELECT _id, price FROM things ORDER BY _id").fetchall() == [("a", 2.0), ("b", 2.5)]
        assert to.execute("SELECT collection, key FROM _rejects").fetchall() == [("things", "c")]
        to.execute(f"DROP SCHEMA {schema} CASCADE")
