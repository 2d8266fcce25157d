"""Without seeds the spider serves its start list: each entry is harvested or becomes a dead letter, none is lost."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis import Redis

from harvester.frontier.keys import prefix_of, start_list_of
from tests.bad_input.command import Answer, Place
from tests.bluesky.conftest import Records
from tests.chaos.servers import Valkey
from tests.crash.harvest import Harvest, fates
from tests.numbers import numbers_of
from tests.sandbox.process import Sandbox

pytestmark = pytest.mark.timeout(1800)

LIST, PREFIX = start_list_of("bluesky"), prefix_of("bluesky", "*")
SECONDS = 240

Serve = Callable[..., Harvest]


def own(redis_url: str) -> str:
    return f"{redis_url.removesuffix('0')}15"


@pytest.fixture
def redis(redis_url: str) -> Iterator[Any]:
    """A database of this test's own, since the list has a fixed name."""
    client: Any = Redis.from_url(own(redis_url), decode_responses=True)
    client.flushdb()
    yield client
    client.flushdb()
    client.close()


@pytest.fixture
def variables(redis_url: str) -> dict[str, str]:
    return {"HARVESTER_REDIS_URL": own(redis_url), "HARVESTER_LEASE_SECONDS": "3"}


@pytest.fixture
def serve(
    site: Sandbox, tmp_path: Path, mongodb_uri: str, mongodb: Records, variables: dict[str, str]
) -> Iterator[Serve]:
    """Makes workers that serve the list: each account alone, without pictures, unless arguments say otherwise."""
    made: list[Harvest] = []

    def make(idle: float = 0, **arguments: str) -> Harvest:
        settings = variables | {"HARVESTER_IDLE_SECONDS": str(idle)}
        wishes = {"seeds": "", "depth": "0", "collect": "profiles,posts"} | arguments
        made.append(Harvest(site, tmp_path / uuid4().hex, mongodb_uri, mongodb.name, settings, **wishes))
        return made[-1]

    yield make
    for harvest in made:
        if harvest.process and harvest.process.poll() is None:
            harvest.end(signal.SIGKILL)


@pytest.fixture
def place(tmp_path: Path, mongodb: Records, mongodb_uri: str, variables: dict[str, str]) -> Place:
    folder = tmp_path / "place"
    folder.mkdir()
    servers = {"HARVESTER_MONGODB_URI": mongodb_uri, "HARVESTER_DATABASE": mongodb.name}
    return Place(folder, mongodb, servers | variables)


def collected(database: Records) -> set[str]:
    return {did for did, (ended, _) in fates(database)["account"].items() if ended == "posts_collected"}


def has_collected(database: Records, did: str) -> bool:
    return did in collected(database)


def until(condition: Callable[[], object], harvest: Harvest) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, harvest.said[-3000:]
        assert harvest.process is not None
        assert harvest.process.poll() is None, harvest.said[-3000:]
        time.sleep(0.05)


def left(redis: Any) -> int:
    """Entries that are in the list, or taken by a worker."""
    return sum(redis.llen(key) for key in [LIST, *redis.keys(f"{PREFIX}start:taken:*")])


def test_lines_and_objects_are_harvested_and_the_worker_ends_when_nothing_is_left(
    serve: Serve, site: Sandbox, redis: Any, mongodb: Records
) -> None:
    redis.lpush(LIST, site.handle(20), f"  {site.did(21)}  # a remark", f"https://bsky.app/profile/{site.handle(22)}")
    redis.rpush(LIST, json.dumps({"seeds": [site.handle(23)]}), json.dumps({"url": site.did(24)}), "", "# nothing")
    redis.rpush(LIST, json.dumps({"seeds": site.did(25), "depth": "0", "collect": "profiles"}))
    worker = serve()
    assert worker.run() == 0, worker.said[-3000:]
    assert collected(mongodb) == {site.did(number) for number in range(20, 25)}
    assert fates(mongodb)["account"][site.did(25)] == ("profile_collected", "")
    assert [row["state"] for row in mongodb.jobs.find()] == ["finished"] * 2
    assert left(redis) == 0
    assert [key for key in redis.keys(f"{PREFIX}start:*") if not key.endswith(":clock")] == []


def test_a_crawl_for_which_there_is_nothing_ends_as_wrong_input_and_says_what_to_type(
    serve: Serve, mongodb: Records
) -> None:
    worker = serve()
    assert worker.run() == 2, worker.said[-3000:]
    assert mongodb.jobs.count_documents({}) == 0
    assert "Traceback" not in worker.said
    last = " ".join(worker.said.rpartition("\nWhy\n")[2].split())
    assert LIST in last
    assert "-a seeds=" in last
    assert "`harvester feed bluesky FILE`" in last
    [run] = mongodb.runs.find()
    assert (run["finish_reason"], run["exit_code"]) == ("usage_error", 2)


def test_a_worker_for_which_there_is_nothing_has_no_fault_and_says_how_to_stay(place: Place) -> None:
    answer = place.run("harvester", "worker", "bluesky")
    assert answer.code == 0, answer.text
    assert "HARVESTER_IDLE_SECONDS=-1" in answer.text


def test_a_list_without_a_good_entry_is_wrong_input(serve: Serve, redis: Any, mongodb: Records) -> None:
    redis.rpush(LIST, "not a seed", "nor this")
    worker = serve()
    assert worker.run() == 2, worker.said[-3000:]
    last = " ".join(worker.said.rpartition("\nWhy\n")[2].split())
    assert LIST in last
    assert "`harvester frontier dead bluesky`" in last


BAD = {
    '{"seeds": "alice.test"': "JSON",
    '{"seeds": "alice.test", "colour": "blue"}': "colour: ",
    '{"seeds": "alice.test", "depth": "many"}': "depth: ",
    '{"seeds": "@/etc/passwd"}': "seeds: '@/etc/passwd'",
    '{"seeds": "alice.test,-"}': "seeds: '-'",
    '{"depth": 1}': "no seeds",
    '{"url": 5}': "no seeds",
    '{"url": "a.test", "seeds": "b.test"}': "url",
    "[1]": "handle",
    "not a seed": "handle",
}


def test_a_list_that_is_submitted_becomes_a_job_of_the_accounts_that_it_names(
    place: Place, site: Sandbox, mongodb: Records
) -> None:
    place.variables |= {
        "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
        "HARVESTER_PLC_URL": site.url,
        "SCRAPY_SETTINGS_MODULE": "harvester.settings",
    }
    lines = [site.handle(20).upper(), f"https://bsky.app/profile/{site.handle(21)}", site.did(22), "not a handle"]
    (place.folder / "handles.txt").write_text("\n".join(lines))
    words = ["-a", "depth=0", "-a", "collect=profiles", "-a", "media=no", "-a", f"service={site.url}"]
    said = place.run("harvester", "jobs", "submit", "bluesky", "--input", "handles.txt", "--json", *words).text
    submitted = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert (submitted["accepted"], submitted["bad"]) == (3, 1), said
    answer = place.run("scrapy", "crawl", "bluesky", "-a", f"job={submitted['job']}")
    assert answer.code == 0, answer.text
    assert {row["_id"] for row in mongodb.profiles.find()} == {site.did(number) for number in (20, 21, 22)}


def test_malformed_entries_become_dead_letters_with_a_reason(
    serve: Serve, site: Sandbox, redis: Any, mongodb: Records, place: Place
) -> None:
    redis.rpush(LIST, *BAD, site.did(20), b"\xff\xfe")
    worker = serve()
    assert worker.run() == 0, worker.said[-3000:]
    assert collected(mongodb) == {site.did(20)}
    said = " ".join(worker.said.split())
    assert "UTF-8" in said
    answer = place.run("harvester", "frontier", "dead", "bluesky")
    assert answer.code == 0, answer.text
    for reason in BAD.values():
        assert reason in said
        assert reason in answer.said
    assert redis.zcard(f"{prefix_of('bluesky', mongodb.name)}start:dead") == len(BAD) + 1
    assert left(redis) == 0


def test_a_waiting_worker_takes_what_comes_and_goes_on_after_an_account_was_harvested(
    serve: Serve, site: Sandbox, redis: Any, mongodb: Records
) -> None:
    worker = serve(idle=-1)
    worker.start()
    waits = "`harvester feed bluesky FILE`"
    until(lambda: waits in worker.said, worker)
    for number in (20, 21):
        redis.lpush(LIST, site.handle(number))
        until(partial(has_collected, mongodb, site.did(number)), worker)
    redis.lpush(LIST, json.dumps({"seeds": site.did(22), "collect": "profiles"}))
    until(lambda: mongodb.job_items.find_one({"key": site.did(22), "stage": "profile_collected"}), worker)
    assert worker.said.count(waits) == 1
    assert worker.end(signal.SIGTERM) == 143, worker.said[-3000:]
    assert "Traceback" not in worker.said


def test_a_killed_worker_loses_no_entry(serve: Serve, site: Sandbox, redis: Any, mongodb: Records) -> None:
    numbers = range(20, 40)
    truth = {site.did(n) for n in numbers if site.truth.accounts[site.did(n)].state == "visible"}
    one, other = serve(idle=-1), serve(idle=-1)
    for worker in (one, other):
        worker.start()
    for number in numbers:
        redis.rpush(LIST, site.handle(number))
        if number % 4 == 0:
            one.running_until(lambda: not redis.llen(LIST))
            one.end(signal.SIGKILL)
            one.start()
    prefix = prefix_of("bluesky", mongodb.name)
    redis.rpush(f"{prefix}start:taken:a-worker-of-yore", site.did(0))
    redis.zadd(f"{prefix}start:workers", {"a-worker-of-yore": 1})
    until(lambda: collected(mongodb) >= truth | {site.did(0)}, other)
    until(lambda: left(redis) == 0, other)
    assert other.end(signal.SIGTERM) == 143, other.said[-3000:]


def test_a_list_of_another_type_is_named_and_left_alone(serve: Serve, redis: Any) -> None:
    redis.sadd(LIST, "alice.test")
    worker = serve()
    assert worker.run() == 2
    assert f"{LIST} in Redis" in " ".join(worker.said.split())
    assert "Traceback" not in worker.said
    assert redis.smembers(LIST) == {"alice.test"}


def test_a_redis_that_is_not_there_is_a_message_and_exit_code_3(
    serve: Serve, variables: dict[str, str], free_port: int
) -> None:
    variables["HARVESTER_REDIS_URL"] = f"redis://127.0.0.1:{free_port}/0"
    worker = serve()
    assert worker.run() == 3, worker.said[-3000:]
    assert "HARVESTER_REDIS_URL" in worker.said
    assert "Traceback" not in worker.said


def test_a_redis_that_goes_away_is_a_pause(
    serve: Serve, variables: dict[str, str], site: Sandbox, mongodb: Records, tmp_path: Path, free_port: int
) -> None:
    with Valkey(tmp_path / "valkey", free_port) as server:
        variables["HARVESTER_REDIS_URL"] = server.uri
        worker = serve(idle=-1)
        worker.start()
        push(server.uri, site.did(20))
        until(partial(has_collected, mongodb, site.did(20)), worker)
        push(server.uri, site.did(21))
        server.end(signal.SIGKILL)
        until(lambda: "WARNING: Redis " in worker.said, worker)
        server.start()
        push(server.uri, site.did(22))
        until(lambda: collected(mongodb) == {site.did(number) for number in (20, 21, 22)}, worker)
        assert worker.said.count("WARNING: Redis ") == 1, "one pause"
        assert worker.end(signal.SIGTERM) == 143, worker.said[-3000:]


def push(url: str, entry: str) -> None:
    with Redis.from_url(url) as client:
        client.rpush(LIST, entry)


# harvester feed


def feed(place: Place, content: bytes, *, by_file: bool = True) -> Answer:
    if not by_file:
        return place.run("harvester", "feed", "bluesky", "-", stdin=content)
    (place.folder / "seeds.txt").write_bytes(content)
    return place.run("harvester", "feed", "bluesky", "seeds.txt")


@pytest.mark.parametrize("by_file", [True, False])
def test_feed_pushes_the_good_lines_and_names_the_bad_ones(place: Place, redis: Any, by_file: bool) -> None:
    lines = [b"\xef\xbb\xbfalice.test", b"not a seed", b"", b"# nothing", b'{"seeds": "bob.test", "depth": 2}', b"{}"]
    answer = feed(place, b"\r\n".join(lines), by_file=by_file)
    assert answer.code == 0, answer.text
    assert re.search(r"Line 2, 'not a seed': .*handle", answer.said)
    assert re.search(r"Line 6, '\{\}': .*seeds", answer.said)
    assert re.search(r"\b2 [^.]*\bbluesky\b[^.]*\b2 ", answer.said)
    assert redis.lrange(LIST, 0, -1) == ["alice.test", '{"seeds": "bob.test", "depth": 2}']
    assert answer.is_for_people(), answer.text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bluesky", "missing.txt"), "missing.txt"),
        (("bluesky", "."), " . "),
        (("bluebird", "-"), "'bluebird'"),
    ],
)
def test_what_cannot_be_fed_is_said(place: Place, words: tuple[str, ...], said: str) -> None:
    answer = place.run("harvester", "feed", *words)
    assert answer.code == 2
    assert said in answer.said
    assert answer.is_for_people(), answer.text


def test_feed_without_a_good_line_ends_with_an_error(place: Place, redis: Any) -> None:
    answer = feed(place, b"nobody\n" * 50)
    assert answer.code == 2
    assert answer.said.count("'nobody'") == 20
    assert 30 in numbers_of(answer.said)
    assert redis.llen(LIST) == 0
