"""`harvester frontier ...` against a real frontier: what it shows, what it changes, and what it refuses."""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from pymongo import AsyncMongoClient
from pymongo.database import Database
from redis.asyncio import Redis

import harvester.items.bluesky  # noqa: F401  records of a kind that is stored
from harvester.cli import main
from harvester.config import load_config
from harvester.frontier.messages import Dead, Done, Leased, Push, Requeue, Skip
from harvester.frontier.operations import fingerprint_of
from harvester.frontier.start_list import StartList
from harvester.frontier.store import Frontier
from harvester.items import Found
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import Ended
from tests.forking import run as run_program
from tests.numbers import numbers_of

T = TypeVar("T")


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Answer]
MALFORMED = "it is no JSON"


@pytest.fixture
def run(
    redis_url: str,
    mongodb_uri: str,
    mongodb: Database[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs `harvester frontier`, in this process."""
    variables = {"REDIS_URL": redis_url, "MONGODB_URI": mongodb_uri, "DATABASE": mongodb.name}
    for name, value in variables.items():
        monkeypatch.setenv(f"HARVESTER_{name}", value)
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.worker.settings")
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["harvester", "frontier", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Answer(int(ended.value.code or 0), out, err)

    return run


def with_frontier(redis_url: str, act: Callable[[Frontier], Awaitable[T]]) -> T:
    async def run() -> T:
        async with Redis.from_url(redis_url) as redis:
            return await act(Frontier(redis, "plain", load_config().database))

    return asyncio.run(run())


@pytest.fixture
def filled(redis_url: str) -> Iterator[dict[str, str]]:
    """A frontier with requests in every place: the last part of their addresses -> id."""

    async def fill(frontier: Frontier) -> dict[str, str]:
        names = ("done", "skipped", "dead", "lost", "later", "leased")
        await frontier.exchange("here:1:a", [push(name, 10) for name in names] + [push("ready")])
        leased = {at(lease): lease.id for lease in (await frontier.exchange("here:1:a", [], wanted=6)).leased}
        later = time.time() + 3600
        await frontier.exchange(
            "here:1:a",
            [
                Done(leased["done"]),
                Skip(leased["skipped"], "policy_denied", "robots.txt"),
                Dead(leased["dead"], "server_error", "503 four times"),
                Dead(leased["lost"], "gone", "410"),
                Requeue(leased["later"], b"later", url("later"), "x.test", 0, "rate_limited", "Retry-After", later),
            ],
        )
        return leased

    yield with_frontier(redis_url, fill)
    with_frontier(redis_url, Frontier.drop)


def url(name: str) -> str:
    return f"https://x.test/{name}"


def push(name: str, priority: int = 0) -> Push:
    return Push(fingerprint_of(url(name)), name.encode(), name, url(name), priority, site="x.test")


def at(lease: Leased) -> str:
    return lease.payload.decode()


# Looking ---------------------------------------------------------------------------------------------------


def test_status_tells_where_everything_is(run: Run, filled: dict[str, str]) -> None:
    status = run("status", "plain", "--json").json["status"]
    places = {name: status[name] for name in ("queued", "ready", "waiting", "leased", "dead", "skipped", "done")}
    assert places == {"queued": 7, "ready": 1, "waiting": 1, "leased": 1, "dead": 2, "skipped": 1, "done": 1}
    assert status["dead_by_outcome"] == {"server_error": 1, "gone": 1}
    assert status["skipped_by_outcome"] == {"policy_denied": 1}
    assert status["balanced"] is True
    assert status["memory_bytes"] > 0
    assert status["workers"]["here:1:a"]["leased"] == 1
    assert 3000 < status["next_due"] - time.time() <= 3600


def test_status_is_readable(run: Run, filled: dict[str, str]) -> None:
    lines = [" ".join(line.split()) for line in run("status", "plain").out.splitlines()]
    assert "ready 1" in lines
    assert any(line.startswith("waiting 1 ") for line in lines)
    assert "dead 2 1 gone, 1 server_error" in lines
    assert "skipped 1 1 policy_denied" in lines
    assert any(line.startswith("queued 7") for line in lines)
    assert any(line.startswith("here:1:a 1 ") for line in lines)
    assert any(line.startswith("x.test ") for line in lines)


def test_a_person_leaves_a_tier_of_a_site_alone_and_asks_it_again(
    run: Run, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = '[tiered]\nhosts = ["t.test"]\n[tiered.proxy]\ntiers = ["none", "datacenter"]\nvendor = "list"\n'
    (tmp_path / "sites.toml").write_text(entry)
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    for word, state in (("hold", "held"), ("open", "open"), ("close", "closed")):
        said = run(word, "plain", "tiered", "--tier", "none").out
        assert ("tiered" in said, state in said) == (True, True)
        breakers = with_frontier(redis_url, Frontier.status).breakers
        assert {name: each.state for name, each in breakers.items() if name.startswith("tiered")} == (
            {} if state == "closed" else {"tiered\0none": state}
        )


def test_a_person_leaves_a_site_alone_and_asks_it_again(
    run: Run, filled: dict[str, str], redis_url: str, mongodb: Database[dict[str, Any]]
) -> None:

    def says(word: str, state: str, parked: int) -> bool:
        said = run(word, "plain", "x.test").out
        return ("x.test" in said, state in said, numbers_of(said)) == (True, True, [parked])

    assert says("hold", "held", 1)
    assert says("hold", "held", 1)
    status = run("status", "plain", "--json").json["status"]
    assert (status["ready"], status["parked"], status["balanced"]) == (0, 1, True)
    assert status["breakers"]["x.test"]["state"] == "held"
    lines = [" ".join(line.split()) for line in run("status", "plain").out.splitlines()]
    assert any(re.match(r"parked 1 .*\b1 x\.test$", line) for line in lines)
    assert any(re.match(r"breaker of x\.test: held ", line) for line in lines)
    found = run("find", "plain", url("ready")).out
    assert re.search(r": parked, .*\bheld\b.*\bperson\b", found), found
    assert says("open", "open", 1)
    assert "breaker of x.test: open " in run("status", "plain").out
    assert says("close", "closed", 0)
    assert says("close", "closed", 0)
    assert with_frontier(redis_url, Frontier.status).ready == 1
    refused = run("hold", "plain", "x.test", "--tier", "isp")
    assert (refused.code, "'isp'" in refused.err) == (2, True)
    events = list(mongodb["events"].find({"spider": "plain"}).sort("at", 1))
    assert [(event["from"], event["to"]) for event in events] == [
        ("closed", "held"),
        ("held", "open"),
        ("open", "closed"),
    ]
    assert all(event["by"] and event["by"] in event["reason"] for event in events)


def test_status_tells_how_fast_it_goes(run: Run, filled: dict[str, str]) -> None:
    assert run("status", "plain", "--json").json["rates"].keys() >= {"queued", "done"}


def test_dead_letters_are_listed_with_their_reason(run: Run, filled: dict[str, str]) -> None:
    said = run("dead", "plain").out
    assert re.search(rf"{filled['dead']}\s+https://x\.test/dead\s+server_error: 503 four times", said)
    (letter,) = run("dead", "plain", "--outcome", "gone", "--json").json["requests"]
    assert (letter["id"], letter["url"], letter["reason"]) == (filled["lost"], url("lost"), "410")
    assert len(run("dead", "plain", "--limit", "1", "--json").json["requests"]) == 1
    assert run("dead", "plain", "--outcome", "dns").out.count("\n") == 1


def test_more_dead_letters_than_can_be_asked_for_are_the_fault_of_who_asks(run: Run) -> None:
    refused = run("dead", "plain", "--limit", "9" * 23)
    assert (refused.code, "--limit" in refused.err) == (2, True)


def test_the_start_list_is_shown_with_its_malformed_entries(run: Run, redis_url: str) -> None:
    async def feed() -> None:
        async with Redis.from_url(redis_url) as redis:
            start = StartList(redis, "plain", load_config().database)
            await start.push(["{", "a", "b", "c"])
            assert (await start.take(1)).entries == [b"{"]
            await start.confirm([(b"{", MALFORMED)])
            assert (await start.take(2)).entries == [b"a", b"b"]

    async def empty() -> None:
        async with Redis.from_url(redis_url) as redis:
            await redis.delete("plain:start_urls", *await redis.keys("harvester:{plain:start_urls}:*"))

    asyncio.run(feed())
    start = run("status", "plain", "--json").json["start"]
    assert (start["entries"], list(start["taken"].values()), start["dead"]) == (1, [2], 1)
    [line] = [line for line in run("status", "plain").out.splitlines() if line.startswith("start list:")]
    assert numbers_of(line) == [1, 2, 1]
    assert re.search(rf"start list:\n'\{{'\n +{MALFORMED}", run("dead", "plain").out)
    (entry,) = run("dead", "plain", "--json").json["entries"]
    assert (entry["entry"], entry["reason"]) == ("{", MALFORMED)
    assert run("drop", "plain", "--yes").code == 0
    start = run("status", "plain", "--json").json["start"]
    assert (start["entries"], list(start["taken"].values()), start["dead"]) == (1, [2], 0)
    asyncio.run(empty())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ready", ": ready"),
        ("later", ": waiting"),
        ("leased", " here:1:a"),
        ("dead", " server_error: 503 four times"),
        ("skipped", ": skipped"),
        ("done", "https://x.test/done: done\n"),
        ("never", "https://x.test/never "),
    ],
)
def test_the_fate_of_an_address_is_told(run: Run, filled: dict[str, str], name: str, words: str) -> None:
    assert words in run("find", "plain", url(name)).out


def test_a_fate_has_its_history(run: Run, filled: dict[str, str]) -> None:
    fate = run("find", "plain", url("later"), "--json").json
    assert fate["state"] == "waiting"
    assert [(event["event"], event["outcome"]) for event in fate["history"]] == [("retry", "rate_limited")]
    assert re.search(r"retry +rate_limited", run("find", "plain", url("later")).out)
    assert run("find", "plain", url("never"), "--json").json is None


# Jobs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(mongodb_uri: str, mongodb: Database[dict[str, Any]]) -> str:
    """A job of the spider, with items of two kinds, of which one is tried again in an hour; its id."""

    async def begin() -> str:
        async with AsyncMongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
            ledger = Ledger(client[mongodb.name], at_once)
            await ledger.make_indexes()
            job = (await ledger.open_job("listed", "0123456789abcdef", backoff_s=3600)).job
            items = [Found("page", "1"), Found("page", "2"), Found("page", "3"), Found("county", "Athens")]
            await ledger.add(job.id, items, lambda _: "")
            first, second, *_ = await ledger.claim(job, 3, "here")
            await ledger.apply([(first.id, Ended(1, "timeout", "late")), (second.id, Ended(1, "ok"))])
            return job.id

    return asyncio.run(begin())


async def at_once(operation: Callable[[], Awaitable[Any]]) -> Any:
    return await operation()


def test_status_names_the_open_jobs_of_a_spider_with_their_items_by_state(run: Run, opened: str) -> None:
    read = run("status", "listed", "--json").json
    assert read["status"]["queued"] == 0, "its frontier is shown like any other"
    (job,) = read["jobs"]
    assert (job["job"], job["state"]) == (opened, "open")
    assert job["items"] == {"county": {"waiting": 1}, "page": {"done": 1, "active": 1, "waiting": 1}}
    due = datetime.fromisoformat(job["next_due"])
    assert 3000 < (due - datetime.now(UTC)).total_seconds() <= 3600
    said = run("status", "listed").out
    assert "queued 0 " in " ".join(said.split())
    assert f"job {opened}, open" in said
    assert re.search(r"counties +1: 1 waiting\n", said)
    assert re.search(r"pages +3: 1 active, 1 done, 1 waiting\n", said)
    assert re.search(rf" 1 .*{due:%Y-%m-%d %H:%M:%S}", said)
    assert f"`harvester jobs show {opened}`" in said


def test_jobs_that_have_ended_are_not_named(run: Run, opened: str, mongodb: Database[dict[str, Any]]) -> None:
    mongodb["jobs"].update_one({}, {"$set": {"state": "paused"}})
    assert f"job {opened}, paused" in run("status", "listed").out
    mongodb["jobs"].update_one({}, {"$set": {"state": "finished"}})
    assert run("status", "listed", "--json").json["jobs"] == []
    assert opened not in run("status", "listed").out


def test_of_a_spider_without_jobs_no_job_is_spoken_of(run: Run) -> None:
    assert "job of" not in run("status", "plain").out


# Changing --------------------------------------------------------------------------------------------------


def test_the_dead_are_replayed_one_by_one_by_outcome_or_all(run: Run, filled: dict[str, str], redis_url: str) -> None:
    assert numbers_of(run("replay", "plain", filled["dead"]).out) == [1]
    assert numbers_of(run("replay", "plain", filled["dead"]).out) == [0]
    assert numbers_of(run("replay", "plain", "--outcome", "dns").out) == [0]
    assert numbers_of(run("replay", "plain", "--outcome", "gone").out) == [1]
    assert numbers_of(run("replay", "plain", "--all").out) == [0]
    status = with_frontier(redis_url, Frontier.status)
    assert (status.ready, status.dead, status.balanced) == (3, 0, True)


def accepted(redis_url: str, *names: str) -> list[str]:
    """Those that may be asked for again. They are queued by that."""

    async def ask(frontier: Frontier) -> list[str]:
        return [
            name
            for name in names
            if (await frontier.exchange("b", [push(name)._replace(token=f"{name} again")])).accepted
        ]

    return with_frontier(redis_url, ask)


def test_pages_are_forgotten_one_by_one(run: Run, filled: dict[str, str], redis_url: str) -> None:
    said = run("forget", "plain", "--url", url("done"), "--url", url("skipped"), "--url", url("never")).out
    assert numbers_of(said) == [2]
    assert accepted(redis_url, "done", "skipped", "dead", "ready") == ["done", "skipped"]


def test_pages_are_forgotten_by_pattern_also_those_from_which_records_are_stored(
    run: Run, filled: dict[str, str], redis_url: str, mongodb: Database[dict[str, Any]]
) -> None:
    mongodb["posts"].insert_one({"_id": "1", "provenance": {"spider": "plain", "url": url("done")}})
    mongodb["posts"].insert_one({"_id": "2", "provenance": {"spider": "other", "url": url("dead")}})
    said = run("forget", "plain", "--pattern", r"x\.test/(done|skip)").out
    assert numbers_of(said) == [2]
    assert accepted(redis_url, "done", "skipped", "dead") == ["done", "skipped"]


def test_all_pages_are_forgotten_after_a_question(
    run: Run, filled: dict[str, str], redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.confirm", refuse)
    assert run("forget", "plain", "--all").code == 130
    assert accepted(redis_url, "done") == []
    assert numbers_of(run("forget", "plain", "--all", "--yes").out) == [7]
    assert accepted(redis_url, "done") == ["done"]


def test_a_frontier_is_dropped_after_a_question(
    run: Run, filled: dict[str, str], redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.confirm", refuse)
    assert run("drop", "plain").code == 130
    assert with_frontier(redis_url, Frontier.status).queued == 7
    assert numbers_of(run("drop", "plain", "--yes").out) == [5]
    assert with_frontier(redis_url, Frontier.status).queued == 0
    assert numbers_of(run("drop", "plain", "--yes").out) == [0]


def refuse(question: str, err: bool) -> bool:
    assert question.endswith("?")
    assert err
    return False


def test_shells_complete_commands_of_the_frontier() -> None:
    words = {"COMP_WORDS": "harvester frontier re", "COMP_CWORD": "2", "_HARVESTER_COMPLETE": "complete_bash"}
    completed = run_program(str(Path(sys.executable).with_name("harvester")), cwd=Path.cwd(), env=os.environ | words)
    assert completed.stdout.split() == ["replay"]


# Refusing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "dead", "replay --all", "forget --all --yes", "drop --yes", "find"])
def test_an_unknown_spider_is_refused(run: Run, command: str) -> None:
    first, *others = command.split()
    words = [first, "nope", *others, *(["https://x.test/"] if first == "find" else [])]
    answer = run(*words)
    assert answer.code == 2
    assert ("'nope'" in answer.err, "listed, manners, plain" in answer.err) == (True, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay", "plain"], "--outcome"),
        (["replay", "plain", "1", "--all"], "--outcome"),
        (["forget", "plain"], "--pattern"),
        (["forget", "plain", "--pattern", "(", "--yes"], "--pattern: '('"),
        (["forget", "plain", "--url", "x.test/a"], "'x.test/a'"),
        (["find", "plain", "x.test/a"], "'x.test/a'"),
        (["dead", "plain", "--limit", "0"], "'--limit'"),
    ],
)
def test_what_cannot_be_used_is_refused(run: Run, words: list[str], said: str) -> None:
    answer = run(*words)
    assert answer.code == 2
    assert said in answer.err


@pytest.mark.parametrize("command", ["status", "dead", "replay --all", "forget --all --yes", "drop --yes"])
def test_without_redis_a_command_says_so_with_code_3(
    run: Run, command: str, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARVESTER_REDIS_URL", f"redis://127.0.0.1:{free_port}/0")
    first, *others = command.split()
    answer = run(first, "plain", *others)
    assert answer.code == 3
    assert "HARVESTER_REDIS_URL" in answer.err
