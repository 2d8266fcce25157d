"""An installation of an earlier version goes on: its database, frontier, schedules, tokens, sites, login and files.

What is in `stored` was written by the code of an earlier commit: see write.py.
"""

import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pymongo.database import Database
from redis import Redis

from harvester.config import Config
from harvester.frontier import operations
from harvester.stores.staging import iter_records
from tests.control.serving import controller
from tests.crawling import LONGEST_S, until
from tests.docs.conftest import House, house
from tests.upgrade.installation import (
    ACTIVE,
    BROKEN,
    DATABASE,
    DEFERRED,
    DONE,
    FAILED,
    JUNE,
    LATER,
    LISTS,
    PORT,
    PRODUCTS,
    URL,
    Oak,
    to_mongodb,
    to_redis,
)

__all__ = ["house"]
STORED = Path(__file__).parent / "stored"
TOLD: dict[str, Any] = json.loads((STORED / "told.json").read_text())
"""What commands of the earlier version said at the end."""
LONG_AGO = datetime(2024, 2, 29, 2, tzinfo=UTC)
NUMBERS = sorted(
    {int(path.rpartition("/")[2]) for path in (LATER, BROKEN)} | {n * 100 + m for n in LISTS for m in PRODUCTS}
)
PATHS = [f"/list/{number}" for number in LISTS]
PATHS += [f"/{kind}/{number}" for kind in ("product", "reviews") for number in NUMBERS]
BROKEN_ONES = {BROKEN, BROKEN.replace("product", "reviews")}
STATES = ("queued", "done", "ready", "leased", "waiting", "parked", "dead", "skipped", "lost", "seen", "balanced")


@pytest.fixture
def earlier(house: House) -> Iterator[House]:
    """The installation."""
    with tarfile.open(fileobj=io.BytesIO((STORED / "folder.tar.xz").read_bytes())) as archive:
        archive.extractall(house.folder, filter="tar")
    database = house.database.client[DATABASE]
    database.client.drop_database(DATABASE)
    to_mongodb((STORED / "mongodb.bson.xz").read_bytes(), database)
    with Redis.from_url(house.environment["HARVESTER_REDIS_URL"]) as redis:
        to_redis((STORED / "redis.msgpack.xz").read_bytes(), redis)
    environment = house.environment | {"HARVESTER_DATABASE": DATABASE, "HARVESTER_LEASE_SECONDS": "3"}
    yield House(house.folder, database, environment)
    database.client.drop_database(DATABASE)


def config_of(earlier: House) -> Config:
    variables = earlier.environment
    return Config(
        mongodb_uri=SecretStr(variables["HARVESTER_MONGODB_URI"]),
        redis_url=SecretStr(variables["HARVESTER_REDIS_URL"]),
        database=DATABASE,
        state_dir=earlier.folder / ".harvester",
        data_dir=earlier.folder / "data",
        allow_private_hosts=True,
    )


async def frontier_of(earlier: House, spider: str) -> dict[str, Any]:
    """Its counts by state, and whether the equation of fates holds."""
    status = (await operations.status(config_of(earlier), spider, seconds=0.01)).status
    return {name: getattr(status, name) for name in STATES}


def products(database: Database[dict[str, Any]]) -> dict[str, Any]:
    """The records of the shop."""
    return {row.pop("_id"): row for row in database["shop"].find({}, {"provenance": 0})}


async def test_a_crawl_that_was_killed_ends_with_the_items_of_an_undisturbed_one(earlier: House, house: House) -> None:
    others = {"DATABASE": house.database.name, "STATE_DIR": "calm/state", "DATA_DIR": "calm/data"}
    calm = house._replace(
        environment=house.environment | {f"HARVESTER_{each}": value for each, value in others.items()}
    )
    async with Oak():
        await calm.runs("harvester crawl shop")
    expected = products(calm.database)
    assert sorted(row["number"] for row in expected.values()) == NUMBERS
    assert await frontier_of(earlier, "shop") == {name: TOLD["shop"][name] for name in STATES}
    assert all(TOLD["shop"][name] for name in ("done", "ready", "leased", "waiting", "dead", "balanced"))
    before = products(earlier.database)
    assert 0 < len(before) < len(expected)
    assert before.items() <= expected.items()
    found = {path: await operations.find(config_of(earlier), "shop", f"{URL}{path}") for path in PATHS}
    states = {path: status.state if status else "unknown" for path, status in found.items()}
    assert Counter(states.values())["leased"] == TOLD["shop"]["leased"]
    assert (states[LATER], states[BROKEN]) == ("waiting", "dead")

    async with Oak() as site:
        ended = await earlier.run("harvester crawl shop")
        assert ended.code == 0, ended.log
        asked = {path: site.count(path) for path in PATHS}
        left = {path: int(states[path] != "done" and path not in BROKEN_ONES) for path in PATHS}
        assert asked == left
        assert not [path for path in site.heads if path.startswith("/login")], "the session goes on, too"
        now = await frontier_of(earlier, "shop")
        assert now == dict.fromkeys(STATES, 0) | {
            "queued": len(PATHS) - 1,
            "seen": len(PATHS) - 1,
            "done": len(PATHS) - 2,
            "dead": 1,
            "balanced": True,
        }
        assert products(earlier.database) == {
            key: row for key, row in expected.items() if f"/{row['number']}" not in BROKEN
        }
        [letter] = json.loads(await earlier.runs("harvester frontier dead shop --json"))["requests"]
        assert (letter["url"], letter["outcome"]) == (f"{URL}{BROKEN}", "server_error")
        await earlier.runs("harvester frontier replay shop --all")
        await earlier.runs("harvester crawl shop")
        assert {path for path in PATHS if site.count(path) > left[path]} == BROKEN_ONES
    assert products(earlier.database) == expected
    now = await frontier_of(earlier, "shop")
    assert (now["done"], now["dead"], now["balanced"]) == (len(PATHS), 0, True)
    staged = Counter(line["key"] for line in iter_records(earlier.folder / "data", "shop", "shop"))
    assert staged.keys() == expected.keys()


async def test_jobs_schedules_and_what_recurs_go_on(earlier: House) -> None:
    def items() -> dict[str, tuple[str, str, int]]:
        rows = earlier.database["job_items"].find({"kind": "parcel"})
        names = {TOLD["may"]: "may", TOLD["june"]: "june"}
        return {
            f"{names.get(row['job'], 'leap')} {row['key']}": (row["state"], row.get("outcome", ""), row["attempts"])
            for row in rows
        }

    done = {f"may {key}": ("done", "ok", 1) for key in DONE}
    failed = {f"may {FAILED}": ("failed", "vacant", 1)}
    assert items() == {
        **done,
        **failed,
        **{f"may {key}": ("active", "", 1) for key in ACTIVE},
        f"may {DEFERRED}": ("waiting", "server_error", 1),
        **{f"june {key}": ("waiting", "", 0) for key in JUNE},
    }
    [listed] = json.loads(await earlier.runs("harvester schedule list --json"))
    [before] = TOLD["schedules"]
    assert listed.keys() == before.keys()
    assert listed | {"late": ""} == before | {"late": ""}
    recurring = json.loads(await earlier.runs("harvester endpoints list --json"))
    assert recurring == TOLD["endpoints"]
    assert all(datetime.fromisoformat(each["next_at"]) < datetime.now(UTC) for each in recurring), "they are due"
    again = "harvester jobs submit parcels --input may.csv --name May --idempotency-key may --priority 3 --json"
    assert json.loads(await earlier.runs(again))["job"] == TOLD["may"]

    expected = {
        **done,
        **failed,
        **{f"may {key}": ("done", "ok", 1) for key in ACTIVE},
        f"may {DEFERRED}": ("done", "ok", 2),
        **{f"{job} {JUNE[0]}": ("done", "ok", 1) for job in ("june", "leap")},
        **{f"{job} {JUNE[1]}": ("failed", "vacant", 1) for job in ("june", "leap")},
    }
    finished = {"spider": "parcels", "state": "finished"}
    earlier.database["schedules"].update_one({"_id": "leap"}, {"$set": {"next_at": LONG_AGO}})
    async with Oak() as site:
        site.rows = 4
        [endpoints] = [job["id"] for job in TOLD["jobs"] if job["spider"] == "endpoints"]
        ended = await earlier.run(f"harvester jobs run {endpoints}")
        assert ended.code == 0, ended.log
        assert [(each, site.count(f"/{each}")) for each in ("weather", "prices")] == [("weather", 1), ("prices", 1)]
        assert site.unchanged == 1, "what the earlier version had seen is known"
        assert [row["id"] for row in earlier.database["prices"].find().sort("id")] == [0, 1, 2, 3]
        worker = await earlier.begin("harvester worker")
        try:
            await until(lambda: earlier.database["jobs"].count_documents(finished) == 3)
        finally:
            worker.terminate()
            await worker.end(LONGEST_S)
        assert items() == expected
        asked = {path: number for kind in ("parcel", "tax") for path, number in site.times(kind).items()}
        assert not [path for path in site.heads if path.startswith("/login")]
    once = {f"/tax/{key}": 1 for key in (*ACTIVE, DEFERRED)} | {f"/parcel/{DEFERRED}": 1}
    assert asked == once | {f"/tax/{JUNE[0]}": 2} | {f"/parcel/{key}": 2 for key in JUNE}
    assert {row["_id"]: row["tax"] for row in earlier.database["parcels"].find()} == {
        key: int(key) * 100 for key in (*DONE, *ACTIVE, DEFERRED, JUNE[0])
    }
    jobs = json.loads(await earlier.runs("harvester jobs list --spider parcels --json"))
    assert Counter((each["name"], each["state"], sum(row["items"] for row in each["counts"])) for each in jobs) == {
        ("May", "finished", 7): 1,
        ("June", "finished", 2): 1,
        ("leap", "finished", 2): 1,
    }
    assert (await frontier_of(earlier, "parcels"))["balanced"]
    [listed] = json.loads(await earlier.runs("harvester schedule list --json"))
    assert listed["next_at"] == before["next_at"] or datetime.fromisoformat(before["next_at"]) < datetime.now(UTC)


async def test_tokens_webhooks_and_sites_are_known(earlier: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.cli_settings")
    text = TOLD["token"]["token"]
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    async with controller(config_of(earlier)) as control:
        given = {"Authorization": f"Bearer {text}"}
        answer = await control.http.get("/api/v1/jobs", headers=given)
        assert (answer.status_code, {each["id"] for each in answer.json()["jobs"]}) == (
            200,
            {job["id"] for job in TOLD["jobs"]},
        )
        paused = await control.http.post(f"/api/v1/jobs/{TOLD['june']}/pause", headers=given | {"Idempotency-Key": "p"})
        assert paused.status_code == 200, "its scope is the same"
        refused = await control.http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {wrong}"})
        assert refused.status_code == 401
    assert await earlier.runs(f"harvester webhooks secret {TOLD['webhook']['id']}") == f"{TOLD['webhook']['secret']}\n"
    shown = json.loads(await earlier.runs("harvester sites show oak --json"))
    assert shown["hosts"] == [f"127.0.0.1:{PORT}"]
    assert shown["outcomes"]["policies"] == {"server_error": {"backoff_s": 60.0, "breaker": False}}
    assert (shown["identities"]["kind"], shown["identities"]["credentials"]) == ("form", ["OAK"])
