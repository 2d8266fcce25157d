"""`harvester purge`: an account is removed from everything, its neighbours are not touched."""

import json
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import typer
from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.database import Database
from typer.testing import CliRunner

from harvester.cli.purge import purge_command
from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.jobs.documents import ItemState, SavedResult
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import Ended, Event, Fed, Lost
from harvester.stores.staging import OPEN, SegmentWriter, recover
from tests.forking import begin
from tests.privacy import harvest
from tests.privacy.harvest import ALICE, ALICIA, BOB, SECRET
from tests.root import ROOT

Mongo = Database[dict[str, Any]]


class Answer(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Purge = Callable[..., Answer]


def _environment(config: Config) -> dict[str, str]:
    assert config.mongodb_uri
    return {
        "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
        "HARVESTER_DATABASE": config.database,
        "HARVESTER_STATE_DIR": str(config.state_dir),
        "HARVESTER_DATA_DIR": str(config.data_dir),
    }


@pytest.fixture
def purge(config: Config, monkeypatch: pytest.MonkeyPatch) -> Purge:
    """Runs the command, with `typed` on its stdin."""
    for name, value in _environment(config).items():
        monkeypatch.setenv(name, value)
    app = typer.Typer()
    app.command()(purge_command)

    def run(*arguments: str, typed: str = "") -> Answer:
        result = CliRunner().invoke(app, arguments, input=typed)
        if isinstance(result.exception, HarvesterError):
            return Answer(result.exception.exit_code, result.stdout, str(result.exception))
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


def without_alice(mongodb: Mongo, config: Config, tmp_path: Path, times: int = 1) -> "Kept":
    """What a harvest would be that never met Alice, but for what others quoted of her."""
    other = mongodb.client[f"{mongodb.name}-x"]
    elsewhere = config.model_copy(update={"data_dir": tmp_path / "elsewhere"})
    harvest.store(other, elsewhere, with_alice=False, times=times)
    recover(elsewhere.data_dir / "staging")
    state = state_of(other, elsewhere)
    mongodb.client.drop_database(other.name)
    return state


Kept = tuple[dict[str, list[dict[str, Any]]], dict[str, list[bytes]], dict[str, bytes]]


def state_of(mongodb: Mongo, config: Config) -> Kept:
    return harvest.documents(mongodb), harvest.lines(config), harvest.pictures(config)


def assert_only_alice_is_gone(found: Kept, expected: Kept) -> None:
    documents, lines, pictures = found
    assert pictures == expected[2]
    assert documents.pop("job_items") == expected[0]["job_items"]
    for name, rows in documents.items():
        for row, wanted in zip(rows, expected[0][name], strict=True):
            if name == "posts" and wanted["uri"].endswith(("/q1", "/q2", "/q3")):
                assert {**row, "embed": 0, "media_urls": 0} == {**wanted, "embed": 0, "media_urls": 0}
            else:
                assert row == wanted
    for name, of_kind in expected[1].items():
        quoting = [line for line in of_kind if SECRET.encode() in line]
        assert set(of_kind) - set(quoting) <= set(lines[name])
        assert len(lines[name]) == len(of_kind)
    everything = repr((documents, lines, pictures))
    assert SECRET not in everything
    assert harvest.PICTURE not in everything


def test_an_account_is_removed_from_everything_and_its_neighbours_stay_as_they_are(
    purge: Purge, mongodb: Mongo, config: Config, tmp_path: Path
) -> None:
    harvest.store(mongodb, config, with_alice=True)

    done = purge("--account", ALICE, "--yes")

    assert done.returncode == 0, done.stderr
    assert_only_alice_is_gone(state_of(mongodb, config), without_alice(mongodb, config, tmp_path))


def test_what_others_were_still_to_be_told_of_it_names_it_no_more(purge: Purge, mongodb: Mongo, config: Config) -> None:
    harvest.store(mongodb, config, with_alice=True)
    theirs = [ALICE, harvest.uri(ALICE), f"{BOB} {ALICE}", f"{ALICE} {BOB}"]
    others = [ALICIA, BOB, harvest.uri(BOB), f"{ALICE}.example", f"{BOB} {ALICE}x"]
    mongodb["deliveries"].insert_many([{"_id": f"hook {key}", "key": key} for key in (*theirs, *others)])
    assert purge("--account", ALICE, "--yes").returncode == 0
    assert sorted(mongodb["deliveries"].distinct("key")) == sorted(others)


def test_what_others_quoted_of_it_is_emptied_and_the_rest_of_their_posts_stays(
    purge: Purge, mongodb: Mongo, config: Config
) -> None:
    harvest.store(mongodb, config, with_alice=True)
    purge("--account", ALICE, "--yes")

    posts = {post["uri"][-2:]: post for post in mongodb["posts"].find({"did": BOB})}
    emptied = {"uri": harvest.uri(ALICE), "kind": "purged", "did": ALICE}
    assert posts["q1"]["embed"] == {"images": [{"url": "https://cdn.example.com/own.jpg"}], "quote": emptied}
    assert posts["q1"]["media_urls"] == ["https://cdn.example.com/own.jpg"]
    assert posts["q2"]["embed"]["quote"]["text"] == "around"
    assert posts["q2"]["embed"]["quote"]["embed"] == {"quote": emptied}
    assert posts["q3"]["embed"]["unknown"] == [{"$type": "x.y", "record": {"uri": harvest.uri(ALICE), "purged": True}}]
    assert posts["q4"]["text"] == f"I like {ALICE}"
    staged = [json.loads(line) for line in harvest.lines(config)["staging/post"]]
    of_bob = [line["raw"] for line in staged if line["key"] == harvest.uri(BOB, "q1")]
    assert [raw["record"] for raw in of_bob] == [{"text": "look"}] * 2
    assert [raw["embed"] for raw in of_bob] == [{"record": {"uri": harvest.uri(ALICE), "purged": True}}] * 2


async def test_no_late_word_of_an_attempt_brings_an_item_back(
    purge: Purge, mongodb: Mongo, config: Config, mongodb_uri: str
) -> None:
    harvest.store(mongodb, config, with_alice=True)
    item = harvest.job_items(ALICE)[0].id
    late: list[Event] = [Ended(2, "ok"), Ended(2, "timeout"), Lost(2), SavedResult(2, ItemState.FAILED, "gone"), Fed(3)]

    purge("--account", ALICE, "--yes")

    async def at_once(operation: Callable[[], Awaitable[Any]]) -> Any:
        return await operation()

    async with AsyncMongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
        ledger = Ledger(client[mongodb.name], at_once)
        assert await ledger.apply([(item, event) for event in late]) == 0
    assert not mongodb["job_items"].find_one({"_id": item})


def test_no_name_of_it_is_left_but_in_the_note(purge: Purge, mongodb: Mongo, config: Config, tmp_path: Path) -> None:
    """Neither what it was asked by, nor who asked; only what others wrote to it refers to it as before."""
    harvest.store(mongodb, config, with_alice=True)
    handle, encoded = "alice.example", quote(ALICE, safe="")
    log, command = tmp_path / "crawl.log", f"scrapy crawl bluesky -a seeds=Alice.Example,{ALICE},malice.example.com"
    mongodb["runs"].insert_one(
        {"_id": "r", "arguments": {"seeds": command}, "errors": [{"said": f"no {ALICE}"}], "log": str(log)}
    )
    mongodb["opt_outs"].insert_one({"_id": ALICE, "declared": ["x"]})
    mongodb["job_items"].insert_one({"_id": f"c-1:seed:{handle}", "job": "c-1", "kind": "seed", "key": handle})
    retried = f"/api/v1/jobs/c-1/items/{encoded}/retry"
    mongodb["audit"].insert_one({"_id": ObjectId(), "action": "retry_item", "target": retried, "status": 202})
    mongodb["batches"].insert_one({"_id": "retry-1", "items": [ALICE, BOB], "filter": {"text": handle}, "done": 1})
    answered = {"status": 201, "body": f'{{"bad_lines":["{handle}, malice.example.com"]}}'.encode()}
    mongodb["idempotency_keys"].insert_many([{"_id": "1", "answer": answered}, {"_id": f"again {ALICE}"}])
    asked = {
        "url": f"https://example.com/?actors={encoded}&actors={ALICIA}",
        "item": f"c-1:thread:{harvest.uri(ALICE)}",
    }
    mongodb["profiles"].update_one({"_id": BOB}, {"$set": {f"provenance.{name}": asked[name] for name in asked}})
    of_run, drawn = (config.data_dir / "reports" / name for name in ("bluesky/r.html", "harvester.html"))
    of_server, of_workers = config.state_dir / "mongodb" / "server.log", config.state_dir / "worker.log"
    bad_lines = config.data_dir / "jobs" / "bluesky-1.bad-lines.jsonl"
    for path in (log, of_run, drawn, of_server, of_workers, bad_lines):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"asked {command}, {encoded}\n")

    done = purge("--account", handle, "--yes")

    assert done.returncode == 0, done.stderr
    names = re.compile(rf"{ALICE}\b|{encoded}\b|\balice\.example\b", re.IGNORECASE)
    for name, rows in harvest.documents(mongodb).items():
        for row in rows:
            referring = {"text", "root_uri", "parent_uri", "embed"} if name == "posts" else set()
            assert not names.search(repr({key: row[key] for key in row.keys() - referring})), name
    assert mongodb["runs"].find_one({"arguments.seeds": {"$regex": "malice.example.com"}})
    bob = mongodb["profiles"].find_one({"_id": BOB})
    assert bob
    assert bob["provenance"]["url"] == f"https://example.com/?actors=purged&actors={ALICIA}"
    assert not drawn.exists()
    assert mongodb["audit"].find_one({"target": "/api/v1/jobs/c-1/items/purged/retry", "status": 202})
    assert mongodb["batches"].find_one({"items": ["purged", BOB], "done": 1})
    (kept,) = mongodb["idempotency_keys"].find()
    assert b"malice.example.com" in kept["answer"]["body"]
    for path in (log, of_run, of_server, of_workers, bad_lines):
        assert not names.search(path.read_text())
        assert len(path.read_text()) == len(f"asked {command}, {encoded}\n"), "somebody may be writing at its end"
        assert "malice.example.com" in path.read_text()
    assert mongodb["purged"].find_one({"_id": ALICE, "handle": handle})


@pytest.mark.parametrize("name", [ALICE, "alice.example", "@Alice.Example"])
def test_undone_an_account_may_be_harvested_again(purge: Purge, mongodb: Mongo, config: Config, name: str) -> None:
    harvest.store(mongodb, config, with_alice=True)
    purge("--account", ALICE, "--yes")

    undone, again = purge("--undo", name), purge("--undo", name)

    assert undone.returncode == 0, undone.stderr
    assert f"{ALICE} alice.example" in undone.stdout
    assert mongodb["purged"].count_documents({}) == 0
    assert again.returncode == 2
    assert repr(name.removeprefix("@")) in again.stderr
    assert "`harvester purge --list`" in again.stderr


def test_it_is_remembered_and_listed(purge: Purge, mongodb: Mongo, config: Config) -> None:
    harvest.store(mongodb, config, with_alice=True)
    purge("--account", ALICE, "--yes")

    remembered = mongodb["purged"].find_one()
    assert remembered
    assert (remembered["_id"], remembered["handle"]) == (ALICE, "alice.example")
    assert remembered["counts"]["follows"] == 3
    listed = purge("--list")
    assert listed.returncode == 0
    listing = listed.stdout.split()
    assert {f"{remembered['purged_at']:%Y-%m-%d}", f"{remembered['purged_at']:%H:%M}", ALICE, "alice.example"} <= {
        *listing
    }


@pytest.mark.parametrize("handle", ["alice.example", "ALICE.Example", "@alice.example"])
def test_a_handle_is_as_good_as_a_did_also_when_it_was_purged_before(
    purge: Purge, mongodb: Mongo, config: Config, handle: str
) -> None:
    harvest.store(mongodb, config, with_alice=True)

    first, again = purge("--account", handle, "--yes"), purge("--account", handle, "--yes")

    assert (first.returncode, again.returncode) == (0, 0)
    assert [row["_id"] for row in mongodb["purged"].find()] == [ALICE]
    assert mongodb["profiles"].count_documents({"_id": ALICE}) == 0
    assert "nothing" in again.stdout


def test_schedules_that_name_it_are_named_and_stay(purge: Purge, mongodb: Mongo, config: Config) -> None:
    harvest.store(mongodb, config, with_alice=True)
    named = {"handles": {"seeds": "bob.example,Alice.example"}, "ids": {"seeds": ALICE}}
    others = {"others": {"seeds": f"malice.example,{ALICIA}"}, "empty": {}}
    rows = [{"_id": name, "arguments": arguments} for name, arguments in (named | others).items()]
    mongodb["schedules"].insert_many(rows)

    done = purge("--account", ALICE, "--yes")

    assert set(re.findall("harvester schedule change ([a-z]+)", done.stdout)) == set(named)
    assert list(mongodb["schedules"].find().sort("_id", -1)) == sorted(rows, key=lambda row: str(row["_id"]))[::-1]


def test_an_account_can_be_purged_before_it_is_ever_met(purge: Purge, mongodb: Mongo) -> None:
    done = purge("--account", "did:plc:stranger", "--yes")

    assert done.returncode == 0
    assert mongodb["purged"].find_one({"_id": "did:plc:stranger"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--account", "nobody.example"],
            "'nobody.example'",
        ),
        (["--account", "handle.invalid"], "DID"),
        (["--account", "twins.example"], "DID"),
        (["--account", "did:plc:"], "DID"),
        (["--account", "did:plc:a/../b"], "DID"),
        (["--account", ""], "--list"),
        ([], "--list"),
        (["--account", ALICE, "--list"], "--account"),
        (["--account", ALICE, "--undo", ALICE], "--account"),
        (["--undo", ALICE], ALICE),
    ],
)
def test_who_is_not_clear_is_refused_and_nothing_is_removed(
    purge: Purge, mongodb: Mongo, config: Config, arguments: list[str], said: str
) -> None:
    mongodb["profiles"].insert_many([{"_id": f"did:plc:{n}", "did": n, "handle": "twins.example"} for n in "ab"])
    mongodb["profiles"].insert_one({"_id": "did:plc:c", "handle": "handle.invalid"})

    refused = purge(*arguments, "--yes")

    assert refused.returncode == 2
    assert said in refused.stderr
    assert mongodb["profiles"].count_documents({}) == 3
    assert mongodb["purged"].count_documents({}) == 0


@pytest.mark.parametrize(("typed", "code"), [("n\n", 130), ("", 2)])
def test_it_says_what_it_would_remove_and_asks(
    purge: Purge, mongodb: Mongo, config: Config, typed: str, code: int
) -> None:
    harvest.store(mongodb, config, with_alice=True)
    before = harvest.documents(mongodb), harvest.pictures(config)

    refused = purge("--account", ALICE, typed=typed)

    assert refused.returncode == code
    counts = {line[:17].strip(): line[17:].strip() for line in refused.stdout.splitlines() if line.startswith("  ")}
    assert counts == {
        "profiles": "1",
        "follows": "3",
        "posts": "1",
        "reposts": "3",
        "likes": "3",
        "threads": "1",
        "lists": "1",
        "list_items": "3",
        "quotes": "3",
        "pictures": "3",
        "staged lines": str(len(harvest.alices()) + 1 + 4),
        "emptied lines": "6",
    }
    assert (harvest.documents(mongodb), harvest.pictures(config)) == before
    assert mongodb["purged"].count_documents({}) == 0
    assert purge("--account", ALICE, typed="y\n").returncode == 0
    assert mongodb["profiles"].count_documents({"_id": ALICE}) == 0


def _remembered(mongodb: Mongo, config: Config) -> bool:
    return mongodb["purged"].count_documents({}) > 0


def _profile_gone(mongodb: Mongo, config: Config) -> bool:
    return _remembered(mongodb, config) and mongodb["profiles"].count_documents({"_id": ALICE}) == 0


def _pictures_gone(mongodb: Mongo, config: Config) -> bool:
    return not (Path(config.images_location) / ALICE).exists()


def _segment_rewritten(mongodb: Mongo, config: Config) -> bool:
    return _pictures_gone(mongodb, config) and any(config.data_dir.rglob("*.zst.tmp"))


@pytest.mark.parametrize("moment", [_remembered, _profile_gone, _pictures_gone, _segment_rewritten])
def test_a_purge_that_was_killed_is_completed_by_doing_it_again(
    purge: Purge,
    mongodb: Mongo,
    config: Config,
    tmp_path: Path,
    moment: Callable[[Mongo, Config], bool],
) -> None:
    harvest.store(mongodb, config, with_alice=True, times=10)
    env = os.environ | _environment(config)
    killed = begin("tests.privacy.command", "--account", "alice.example", "--yes", cwd=ROOT, env=env)
    deadline = time.monotonic() + 240
    while not moment(mongodb, config) and killed.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)  # what is looked at needs the processor, too
    killed.kill()
    assert killed.wait() == -signal.SIGKILL

    done = purge("--account", "alice.example", "--yes")

    assert done.returncode == 0, done.stderr
    assert_only_alice_is_gone(state_of(mongodb, config), without_alice(mongodb, config, tmp_path, times=10))
    assert not list(config.data_dir.rglob("*.tmp"))


def test_segments_of_a_running_crawl_are_left_alone_and_named(purge: Purge, mongodb: Mongo, config: Config) -> None:
    harvest.store(mongodb, config, with_alice=True)
    writer = SegmentWriter(config.data_dir / "staging" / "bluesky")
    writer.write("post", [b'{"kind":"post","key":"at://did:plc:alice/x/1","did":"did:plc:alice","raw":{}}'])

    during = purge("--account", ALICE, "--yes")
    writer.close()
    after = purge("--account", ALICE, "--yes")

    assert (during.returncode, after.returncode) == (0, 0)
    assert "running" in during.stdout
    assert "running" not in after.stdout
    assert b'"did":"did:plc:alice"' not in b"".join(
        line for of_kind in harvest.lines(config).values() for line in of_kind
    )
    assert not list(config.data_dir.rglob(f"*{OPEN}"))


def test_a_damaged_segment_is_named_and_all_else_is_removed(purge: Purge, mongodb: Mongo, config: Config) -> None:
    harvest.store(mongodb, config, with_alice=True)
    damaged = config.data_dir / "staging" / "bluesky" / "post" / "2026-11-01" / "000000-1-1.jsonl.zst"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"this is no zstd")

    done = purge("--account", ALICE, "--yes")

    assert done.returncode == 4
    assert str(damaged) in done.stderr
    assert mongodb["posts"].count_documents({"did": ALICE}) == 0
    assert not (Path(config.images_location) / ALICE).exists()
    assert damaged.read_bytes() == b"this is no zstd"
