"""A harvest by a browser, from the pages of the web client, brings the same as one by the API, however it is ended."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from harvester.exceptions import UsageError
from harvester.spiders.bluesky.spider import BlueskySpider
from harvester.spiders.bluesky.web import leads_to_end
from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest, documents, fates, stored
from tests.crash.nothing_lost import differences
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
Ended = dict[str, dict[str, Any]]

SHOWN = ("follows_all", "no_profile", "private", "intents_refuse")
HIDDEN = ("deactivated", "takendown", "pds_takendown", "deleted")
"""Accounts that the API does not show."""
READER = 14
SESSION = "HARVESTER_SESSION_WEB"
IMPATIENT = {"SCRAPY_SETTINGS_MODULE": "tests.bluesky.impatient"}


@pytest.fixture(scope="module")
def _small() -> Iterator[Sandbox]:
    with Sandbox(accounts=16, posts=2, page_size=10) as site:
        yield site


@pytest.fixture
def small(_small: Sandbox) -> Iterator[Sandbox]:
    """A network small enough for a browser, without faults."""
    _small.clear_log()
    yield _small
    _small.clear_faults()


@pytest.fixture
def make(small: Sandbox, tmp_path: Path, mongodb_uri: str, mongodb: Records, own_redis: str) -> Make:
    """Makes a command; of a browser, unless it says `via="api"`."""

    def command(variables: dict[str, str] | None = None, **arguments: str) -> Harvest:
        wishes = {"via": "browser", "web": web(small)} | wanted(small) | arguments
        redis = {"HARVESTER_REDIS_URL": own_redis}
        return Harvest(small, tmp_path, mongodb_uri, mongodb.name, redis | (variables or {}), **wishes)

    return command


@pytest.fixture(scope="module")
def by_api(_small: Sandbox, mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """Records and fates of a harvest by the API."""
    with MongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
        database = client["test-bluesky-by-api"]
        client.drop_database(database.name)
        folder = tmp_path_factory.mktemp("by-api")
        command = Harvest(_small, folder, mongodb_uri, database.name, {}, **wanted(_small))
        assert command.run() == 0, command.said[-3000:]
        yield ended(database)
        client.drop_database(database.name)


def ended(database: Records) -> Ended:
    """All records and the fates of accounts."""
    return {**stored(database), **fates(database)}


def web(site: Sandbox) -> str:
    """The web client's address: a host of its own."""
    return site.url.replace("127.0.0.1", "localhost")


def wanted(site: Sandbox) -> dict[str, str]:
    """All that a browser can read, of a few accounts, some of which are not there, each in its own way."""
    seeds = [site.handle(0), *map(site.did, SHOWN), *map(site.did, HIDDEN), "nobody.sandbox.test"]
    return {"seeds": ",".join(seeds), "depth": "0", "collect": "graph,profiles,posts"}


def test_a_harvest_by_a_browser_equals_one_by_the_api(
    make: Make, small: Sandbox, mongodb: Records, by_api: Ended
) -> None:
    small.fault("drop_field", "limit=1(&|$)", field="cursor")  # what is asked beside ends no list
    command = make()
    assert command.run() == 0, command.said[-3000:]
    assert differences(ended(mongodb), by_api) == []
    reasons = {reason.partition(":")[0] for stage, reason in fates(mongodb)["account"].values() if stage == "failed"}
    assert reasons == {"gone", "not_found"}
    asked = [entry["path"] for entry in small.log()["requests"]]
    assert any("getFollowers" in path and "cursor=" in path for path in asked), "no list of several answers"
    sources = [row["provenance"]["url"] for row in mongodb.follows.find()]
    assert all(url.startswith(f"{web(small)}/xrpc/app.bsky.graph.getFollow") for url in sources)
    assert "Traceback" not in command.said


@pytest.mark.slow
def test_killed_on_the_way_and_begun_by_the_api_it_goes_on_to_the_same_end(
    make: Make, small: Sandbox, mongodb: Records, by_api: Ended
) -> None:
    by_the_api = make({"HARVESTER_REQUESTS_PER_SECOND": "20"}, via="api")
    by_the_api.start()
    assert by_the_api.running_until(lambda: mongodb.follows.count_documents({}) > 5), by_the_api.said
    by_the_api.end(signal.SIGKILL)
    by_a_browser = make()
    before = documents(mongodb)
    by_a_browser.start()
    assert by_a_browser.running_until(lambda: documents(mongodb) > before + 20), by_a_browser.said
    by_a_browser.end(signal.SIGKILL)
    assert by_a_browser.run() == 0, by_a_browser.said[-3000:]
    assert differences(ended(mongodb), by_api) == []
    assert [row["state"] for row in mongodb.jobs.find()] == ["finished"], "it was one job"


def test_when_the_service_refuses_the_run_ends_and_the_next_reads_on(
    make: Make, small: Sandbox, mongodb: Records
) -> None:
    accounts = [1, 7, 8]
    follows = {f"{one} {other}" for one, other in small.truth_of(seeds=accounts, hops=1).follows}
    fault = small.fault("html_403", "/xrpc/app.bsky.graph", after=2)
    command = make(seeds=",".join(map(small.did, accounts)), collect="graph,profiles")
    assert command.run() == 7, command.said[-3000:]
    assert "blocked: HTTP 403" in " ".join(command.said.split()), command.said[-3000:]
    assert mongodb.profiles.count_documents({}) == len(accounts)
    assert stored(mongodb)["follows"].keys() < follows
    small.clear_faults(fault)
    assert command.run() == 0, command.said[-3000:]
    assert stored(mongodb)["follows"].keys() == follows
    assert set(fates(mongodb)["account"].values()) == {("profile_collected", "")}
    assert [row["state"] for row in mongodb.jobs.find()] == ["finished"]


@pytest.mark.parametrize(
    ("told", "whole"),
    [
        ([("", 30, "a"), ("a", 30, "b"), ("b", 30, "")], True),
        ([("", 30, "a"), ("b", 30, "")], False),  # the answer to "a" was not captured
        ([("a", 30, "")], False),
        ([("", 30, "a"), ("", 1, "")], False),
        ([("", 1, "c"), ("", 30, "a"), ("", 1, "c"), ("a", 30, "")], True),
        ([("", 30, ""), ("", 1, "c")], True),
        ([("", 30, "a"), ("", 30, "")], True),  # it was asked again
        ([("", 30, "a"), ("a", 30, "a")], False),
        ([], False),
    ],
)
def test_a_list_is_done_only_when_its_answers_lead_from_its_top_to_its_end(
    told: list[tuple[str, int, str]], whole: bool
) -> None:
    assert leads_to_end(told) is whole


@pytest.mark.soak
def test_a_list_that_was_cut_short_is_not_done_and_is_read_by_the_next_run(
    make: Make, small: Sandbox, mongodb: Records, by_api: Ended
) -> None:
    hub = small.did(0)
    limited = small.fault("rate_limit", "getProfile", seconds=2, times=1)
    held = small.fault("hang", "getFollowers.*cursor=")
    command = make(seeds=hub, direction="followers", collect="graph,profiles")
    command.start()
    assert command.running_until(lambda: fault_of(small, held)["struck"] > 0), command.said[-3000:]
    fault = fault_of(small, limited)
    assert (fault["struck"], fault["breaches"]) == (1, []), "it waited as long as the page was told to wait"
    command.end(signal.SIGINT, seconds=50)
    assert fates(mongodb)["account"][hub][0] != "failed", "a page that is given up says nothing of its account"
    small.clear_faults(held)
    cut = small.fault("reset", "getFollowers.*cursor=")
    again = make(IMPATIENT, seeds=hub, direction="followers", collect="graph,profiles")
    assert again.run() != 0, again.said[-3000:]
    [(state, reason)] = fates(mongodb)["account"].values()
    assert (state, reason.startswith("followers: navigation_failed: ")) == ("waiting", True)
    followers = {key for key, row in by_api["follows"].items() if row["subject_did"] == hub}
    assert 0 < mongodb.follows.count_documents({}) < len(followers), "what it has seen is kept"
    small.clear_faults(cut)
    assert command.run() == 0, command.said[-3000:]
    assert stored(mongodb)["follows"].keys() == followers
    assert fates(mongodb)["account"] == {hub: ("profile_collected", "")}


def fault_of(site: Sandbox, number: int) -> dict[str, Any]:
    """What a fault has done."""
    return next(fault for fault in site.faults() if fault["id"] == number)


def test_it_signs_in_on_a_page_once_and_the_next_run_goes_on_with_what_the_page_has_kept(
    make: Make, small: Sandbox, tmp_path: Path
) -> None:
    one = {"seeds": small.did(0), "depth": "0", "collect": "profiles"}
    command = make(entry(tmp_path, small, f"pw-{small.handle(READER)}"), **one)
    assert command.run() == 0, command.said[-3000:]
    first = kept(tmp_path)
    small.settings(expire=small.did(READER))
    assert command.run() == 0, command.said[-3000:]
    log = small.log()
    assert kept(tmp_path) != first, "the page has replaced its tokens, and the new ones are kept"
    assert log["counts"]["com.atproto.server.refreshSession 200"] == 1
    assert log["counts"]["com.atproto.server.createSession 200"] == 1
    asked = [entry["authorized"] for entry in log["requests"] if "/xrpc/app.bsky" in entry["path"]]
    assert len(asked) >= 2
    assert all(asked)
    small.settings(revoke=small.did(READER))
    assert command.run() == 0, command.said[-3000:]
    assert small.log()["counts"]["com.atproto.server.createSession 200"] == 2, "the site knew the session no longer"
    assert f"pw-{small.handle(READER)}" not in command.said


def kept(folder: Path) -> bytes:
    """The state of the browser that is kept, for its owner only."""
    files = (folder / ".harvester" / "sessions").iterdir()
    [path] = [path for path in files if b"BSKY_STORAGE" in path.read_bytes()]
    assert path.stat().st_mode & 0o777 == 0o600
    return path.read_bytes()


def test_a_host_without_the_client_is_named_and_says_nothing_of_accounts(
    make: Make, small: Sandbox, mongodb: Records
) -> None:
    small.fault("status", "^/profile/", status=404)
    command = make(seeds=small.did(0))
    assert command.run() == 6, command.said[-3000:]
    assert fates(mongodb)["account"][small.did(0)][1].startswith("layout_changed: ")


def test_a_wrong_password_is_tried_once_and_ends_the_run(make: Make, small: Sandbox, tmp_path: Path) -> None:
    command = make(IMPATIENT | entry(tmp_path, small, "wrong"))
    assert command.run() == 5, command.said[-3000:]
    counts = small.log()["counts"]
    assert {name: number for name, number in counts.items() if "createSession" in name} == {
        "com.atproto.server.createSession 401": 1
    }
    assert not [name for name in counts if name.startswith("app.bsky.")]


def entry(folder: Path, site: Sandbox, password: str) -> dict[str, str]:
    """The entry that docs/bluesky.md shows, of the sandbox's client; the variables of a command that uses it."""
    sites = folder / "sites"
    sites.mkdir()
    (sites / "web.toml").write_text(
        f"""[bluesky-web]
hosts = ["{web(site).removeprefix("http://")}"]
[bluesky-web.identities]
kind = "browser"
credentials = "WEB"
[bluesky-web.identities.browser]
steps = [
    {{open = "{web(site)}/"}},
    {{click = 'button[aria-label="Sign in"]'}},
    {{fill = '[data-testid="loginUsernameInput"]', value = "{{user}}"}},
    {{fill = '[data-testid="loginPasswordInput"]', value = "{{password}}"}},
    {{click = '[data-testid="loginNextButton"]'}},
    {{wait_for = '[aria-label="Notifications"], [role="alert"]', optional = true, timeout_s = 30}},
]
success = {{text = 'aria-label="Notifications"'}}
[[bluesky-web.outcomes.rules]]
name = "signed-out"
outcome = "session_expired"
pattern = ['<button[^>]* aria-label="Sign in"']
"""
    )
    login = {f"{SESSION}_USER": site.handle(READER), f"{SESSION}_PASSWORD": password}
    return login | {"HARVESTER_SITES_DIR": str(sites)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"history": "records"}, "history: records .*via=api"),
        ({"history": "car"}, "history: car .*via=api"),
        ({"collect": "posts,threads"}, "collect: threads .*via=api"),
        ({"collect": "lists"}, "collect: lists .*via=api"),
        ({"web": "ftp://bsky.app"}, "web: .*https://bsky.app"),
        ({"via": "hand"}, "via: "),
    ],
)
def test_what_no_page_shows_is_refused_before_anything_is_fetched(arguments: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        BlueskySpider.parse_arguments({"seeds": "alice.example.com", "via": "browser"} | arguments)
