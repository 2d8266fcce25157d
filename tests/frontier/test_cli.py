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

T = TypeVar("T")


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Answer]


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
    assert any(line.startswith("waiting 1 the next until ") for line in lines)
    assert "dead 2 1 gone, 1 server_error" in lines
    assert "skipped 1 1 policy_denied" in lines
    assert "queued 7 in all" in lines
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
        assert said == f"The breaker of tiered without a proxy is {state}.\n"
        breakers = with_frontier(redis_url, Frontier.status).breakers
        assert {name: each.state for name, each in breakers.items() if name.startswith("tiered")} == (
            {} if state == "closed" else {"tiered\0none": state}
        )


def test_a_person_leaves_a_site_alone_and_asks_it_again(
    run: Run, filled: dict[str, str], redis_url: str, mongodb: Database[dict[str, Any]]
) -> None:
    said = run("hold", "plain", "x.test").out
    assert said == "The breaker of x.test is held; 1 of its requests are parked.\n"
    assert run("hold", "plain", "x.test").out == "The breaker of x.test was held; 1 of its requests are parked.\n"
    status = run("status", "plain", "--json").json["status"]
    assert (status["ready"], status["parked"], status["balanced"]) == (0, 1, True)
    assert status["breakers"]["x.test"]["state"] == "held"
    lines = [" ".join(line.split()) for line in run("status", "plain").out.splitlines()]
    assert "parked 1 since their sites are left alone: 1 x.test" in lines
    assert any(re.match(r"breaker of x.test: held since .* until a person closes it$", line) for line in lines)
    found = run("find", "plain", url("ready")).out
    assert re.search(r": parked, since .*its site is left alone \(held, because of person\)", found), found
    assert run("open", "plain", "x.test").out == "The breaker of x.test is open; 1 of its requests are parked.\n"
    assert "breaker of x.test: open since " in run("status", "plain").out
    assert run("close", "plain", "x.test").out == "The breaker of x.test is closed; 0 of its requests are parked.\n"
    assert run("close", "plain", "x.test").out == "The breaker of x.test was closed; 0 of its requests are parked.\n"
    assert with_frontier(redis_url, Frontier.status).ready == 1
    refused = run("hold", "plain", "x.test", "--tier", "isp")
    assert (refused.code, "has no breaker for the tier 'isp'; its tiers are none." in refused.err) == (2, True)
    events = list(mongodb["events"].find({"spider": "plain"}).sort("at", 1))
    assert [(event["from"], event["to"]) for event in events] == [
        ("closed", "held"),
        ("held", "open"),
        ("open", "closed"),
    ]
    assert all(event["by"] and event["reason"] == f"{event['by']} wanted it so." for event in events)


def test_status_tells_how_fast_it_goes(run: Run, filled: dict[str, str]) -> None:
    assert run("status", "plain", "--json").json["rates"].keys() >= {"queued", "done"}


def test_dead_letters_are_listed_with_their_reason(run: Run, filled: dict[str, str]) -> None:
    said = run("dead", "plain").out
    assert f"{filled['dead']}  https://x.test/dead\n    server_error: 503 four times" in said
    (letter,) = run("dead", "plain", "--outcome", "gone", "--json").json["requests"]
    assert (letter["id"], letter["url"], letter["reason"]) == (filled["lost"], url("lost"), "410")
    assert len(run("dead", "plain", "--limit", "1", "--json").json["requests"]) == 1
    assert run("dead", "plain", "--outcome", "dns").out == "None.\n"


def test_more_dead_letters_than_can_be_asked_for_are_the_fault_of_who_asks(run: Run) -> None:
    refused = run("dead", "plain", "--limit", "9" * 23)
    assert (refused.code, "--limit" in refused.err) == (2, True)


def test_the_start_list_is_shown_with_its_malformed_entries(run: Run, redis_url: str) -> None:
    async def feed() -> None:
        async with Redis.from_url(redis_url) as redis:
            start = StartList(redis, "plain", load_config().database)
            await start.push(["{", "a", "b", "c"])
            assert (await start.take(1)).entries == [b"{"]
            await start.confirm([(b"{", "it is no JSON")])
            assert (await start.take(2)).entries == [b"a", b"b"]

    async def empty() -> None:
        async with Redis.from_url(redis_url) as redis:
            await redis.delete("plain:start_urls", *await redis.keys("harvester:{plain:start_urls}:*"))

    asyncio.run(feed())
    start = run("status", "plain", "--json").json["start"]
    assert (start["entries"], list(start["taken"].values()), start["dead"]) == (1, [2], 1)
    assert "start list: 1 left; workers have taken 2 entries, 1 malformed\n" in run("status", "plain").out
    assert re.search(r"start list:\n'\{'\n    it is no JSON \(\d+ s ago\)", run("dead", "plain").out)
    (entry,) = run("dead", "plain", "--json").json["entries"]
    assert (entry["entry"], entry["reason"]) == ("{", "it is no JSON")
    assert run("drop", "plain", "--yes").code == 0
    start = run("status", "plain", "--json").json["start"]
    assert (start["entries"], list(start["taken"].values()), start["dead"]) == (1, [2], 0)
    asyncio.run(empty())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ready", ": ready"),
        ("later", ": waiting, since "),
        ("leased", ", by here:1:a"),
        ("dead", "because of server_error: 503 four times"),
        ("skipped", ": skipped, since "),
        ("done", "https://x.test/done: done\n"),
        ("never", "https://x.test/never was not asked for, or was forgotten."),
    ],
)
def test_the_fate_of_an_address_is_told(run: Run, filled: dict[str, str], name: str, words: str) -> None:
    assert words in run("find", "plain", url(name)).out


def test_a_fate_has_its_history(run: Run, filled: dict[str, str]) -> None:
    fate = run("find", "plain", url("later"), "--json").json
    assert fate["state"] == "waiting"
    assert [(event["event"], event["outcome"]) for event in fate["history"]] == [("retry", "rate_limited")]
    assert "retry        rate_limited Retry-After" in run("find", "plain", url("later")).out
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
    assert "queued 0 in all" in " ".join(said.split())
    assert f"job {opened}, open, since " in said
    assert "  counties  1: 1 waiting\n" in said
    assert "  pages     3: 1 active, 1 done, 1 waiting\n" in said
    assert f"  1 item of it waits to be tried again, the first at {due:%Y-%m-%d %H:%M:%S} UTC\n" in said
    assert f"  `harvester jobs show {opened}` says more\n" in said


def test_jobs_that_have_ended_are_not_named(run: Run, opened: str, mongodb: Database[dict[str, Any]]) -> None:
    mongodb["jobs"].update_one({}, {"$set": {"state": "paused"}})
    assert f"job {opened}, paused, since " in run("status", "listed").out
    mongodb["jobs"].update_one({}, {"$set": {"state": "finished"}})
    assert run("status", "listed", "--json").json["jobs"] == []
    assert "No job of listed is open.\n" in run("status", "listed").out


def test_of_a_spider_without_jobs_no_job_is_spoken_of(run: Run) -> None:
    assert "job of" not in run("status", "plain").out


# Changing --------------------------------------------------------------------------------------------------


def test_the_dead_are_replayed_one_by_one_by_outcome_or_all(run: Run, filled: dict[str, str], redis_url: str) -> None:
    assert run("replay", "plain", filled["dead"]).out == "1 of the dead are ready again.\n"
    assert run("replay", "plain", filled["dead"]).out == "0 of the dead are ready again.\n"
    assert run("replay", "plain", "--outcome", "dns").out == "0 of the dead are ready again.\n"
    assert run("replay", "plain", "--outcome", "gone").out == "1 of the dead are ready again.\n"
    assert run("replay", "plain", "--all").out == "0 of the dead are ready again.\n"
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
    assert said == "2 pages are forgotten and may be asked for again.\n"
    assert accepted(redis_url, "done", "skipped", "dead", "ready") == ["done", "skipped"]


def test_pages_are_forgotten_by_pattern_also_those_from_which_records_are_stored(
    run: Run, filled: dict[str, str], redis_url: str, mongodb: Database[dict[str, Any]]
) -> None:
    mongodb["posts"].insert_one({"_id": "1", "provenance": {"spider": "plain", "url": url("done")}})
    mongodb["posts"].insert_one({"_id": "2", "provenance": {"spider": "other", "url": url("dead")}})
    said = run("forget", "plain", "--pattern", r"x\.test/(done|skip)").out
    assert said == "2 pages are forgotten and may be asked for again.\n"
    assert accepted(redis_url, "done", "skipped", "dead") == ["done", "skipped"]


def test_all_pages_are_forgotten_after_a_question(
    run: Run, filled: dict[str, str], redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.confirm", refuse)
    assert run("forget", "plain", "--all").code == 130
    assert accepted(redis_url, "done") == []
    assert run("forget", "plain", "--all", "--yes").out == "7 pages are forgotten and may be asked for again.\n"
    assert accepted(redis_url, "done") == ["done"]


def test_a_frontier_is_dropped_after_a_question(
    run: Run, filled: dict[str, str], redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.confirm", refuse)
    assert run("drop", "plain").code == 130
    assert with_frontier(redis_url, Frontier.status).queued == 7
    assert run("drop", "plain", "--yes").out == "Dropped; it held 5 requests.\n"
    assert with_frontier(redis_url, Frontier.status).queued == 0
    assert run("drop", "plain", "--yes").out == "Dropped; it held 0 requests.\n"


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
    assert "There is no spider 'nope'; there are: listed, manners, plain." in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay", "plain"], "replay: give one of ids, --outcome NAME or --all."),
        (["replay", "plain", "1", "--all"], "replay: give one of ids, --outcome NAME or --all."),
        (["forget", "plain"], "forget: give one of --url, --pattern or --all."),
        (["forget", "plain", "--pattern", "(", "--yes"], "--pattern: '(' is no regular expression: "),
        (["forget", "plain", "--url", "x.test/a"], "'x.test/a' is no address: give it whole"),
        (["find", "plain", "x.test/a"], "'x.test/a' is no address: give it whole"),
        (["dead", "plain", "--limit", "0"], "Invalid value for '--limit'"),
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
    assert "Redis cannot be reached" in answer.err
    assert "HARVESTER_REDIS_URL" in answer.err
