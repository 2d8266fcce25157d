"""A service that refuses, is not there, or is none: the run says so, what waits stays queued, the next one goes on."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from tests.bad_input.command import NO_WAITING, Answer, Place
from tests.sandbox.process import Sandbox


class Told(NamedTuple):
    first: Answer
    unfinished: bool
    """Whether the first run left work for the next."""
    second: Answer
    posts: set[str]
    """Of the account, in the end."""


PASSING = {
    "403 with HTML for everything": (
        20,
        "html_403",
        ("1 of 1 accounts", "(HTTP 403)", "scrapy crawl bluesky"),
    ),
    "a web page for everything": (21, "html_instead_of_json", ("JSON)", "-a service=")),
}
"""Kind -> the account that is harvested, the fault that strikes all that is asked about it, what is named."""

HICCUPS: dict[str, tuple[int, str, dict[str, Any], str]] = {
    "429 with HTML and no time": (26, "html_429", {"times": 1}, "wait"),
    "429 with Retry-After": (27, "rate_limit", {"times": 2, "seconds": 2}, "wait 2 s"),
    "connections reset now and then": (31, "reset", {"times": 4}, " network at 127.0.0.1:"),
}
"""Kind -> account, fault of its feed, wishes of the fault, what is named. They cost no more than time."""


def passing(account: int, fault: str, place: Place, site: Sandbox) -> Told:
    did = site.did(account)
    number = site.fault(fault, did)
    first = place.crawl(site, *NO_WAITING, seeds=did)
    site.clear_faults(number)
    unfinished = place.database["jobs"].count_documents({"state": "open"}) == 1
    second = place.crawl(site, *NO_WAITING, seeds=did)
    return Told(first, unfinished, second, place.posts_of(did))


class Overcome(NamedTuple):
    answer: Answer
    posts: dict[str, set[str]]
    breaches: int
    """Requests during a silence that was asked for."""


def hiccups(place: Place, site: Sandbox) -> Overcome:
    """Beside an account with many pages, so that the errors are few among the answers."""
    numbers = [
        site.fault(fault, f"getAuthorFeed.*{site.did(account)}", **wishes)
        for account, fault, wishes, _ in HICCUPS.values()
    ]
    dids = [site.did(account) for account, *_ in HICCUPS.values()]
    answer = place.crawl(site, *NO_WAITING, seeds=",".join([*dids, site.did(0)]))
    breaches = sum(len(fault["breaches"]) for fault in site.faults() if fault["id"] in numbers)
    site.clear_faults(*numbers)
    return Overcome(answer, {did: place.posts_of(did) for did in dids}, breaches)


@contextmanager
def web_site(folder: Path) -> Iterator[str]:
    """The address of a site with the pages of a folder."""

    class Pages(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def web_site_without_api(place: Place, site: Sandbox) -> Answer:
    with web_site(place.folder) as address:
        return place.crawl(site, service=address)


def forbidden_to_robots(place: Place, site: Sandbox) -> Answer:
    (place.folder / "robots.txt").write_text("User-agent: *\nDisallow: /\n")
    with web_site(place.folder) as address:
        return place.crawl(site, service=address)


def closed_port(place: Place, site: Sandbox) -> Answer:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return place.crawl(site, *NO_WAITING, service=f"http://127.0.0.1:{port}")


def no_such_name(place: Place, site: Sandbox) -> Answer:
    return place.crawl(site, *NO_WAITING, service="https://no-such-host.invalid")


def gone_midway(place: Place, site: Sandbox) -> Answer:
    """Profiles are answered, posts no longer."""
    dids = [site.did(account) for account in range(40, 48)]
    number = site.fault("reset", f"getAuthorFeed.*({'|'.join(dids)})")
    answer = place.crawl(site, *NO_WAITING, seeds=",".join(dids), collect="profiles,posts")
    site.clear_faults(number)
    return answer


LASTING: dict[str, tuple[Callable[[Place, Sandbox], Answer], tuple[str, ...]]] = {
    "a web site without the API": (
        web_site_without_api,
        ("HTTP 404", "-a service="),
    ),
    "forbidden by robots.txt": (forbidden_to_robots, ("robots.txt of 127.0.0.1:", ": Disallow: /)")),
    "connections that break from now on": (gone_midway, ("127.0.0.1:", "online")),
    "a port where nobody listens": (closed_port, ("no connection", "-a service=")),
    "a name that does not resolve": (no_such_name, ("no-such-host.invalid", "resolved", "-a service=")),
}


def directory_down(place: Place, site: Sandbox) -> tuple[Answer, set[str]]:
    place.variables |= {"HARVESTER_PLC_URL": "http://127.0.0.1:1", "HARVESTER_MAX_ERROR_RATIO": "1"}
    seeds = f"{site.did(29)},{site.did(0)}"
    return place.crawl(site, *NO_WAITING, seeds=seeds), place.posts_of(site.did(29))


class Private(NamedTuple):
    answer: Answer
    posts: set[str]
    asked: list[str]
    """Paths of the requests about the account."""


def private_server(place: Place, site: Sandbox) -> Private:
    """The DID documents of the site lead to 127.0.0.1."""
    service = site.url.replace("127.0.0.1", "localhost")  # the user's own
    place.variables["HARVESTER_ALLOW_PRIVATE_HOSTS"] = "false"
    place.variables["HARVESTER_PRIVATE_HOSTS"] = service.removeprefix("http://")
    place.variables["HARVESTER_PLC_URL"] = service
    did, began = site.did(30), time.time()
    answer = place.crawl(site, seeds=did, service=service, harvest_unknown="yes")
    asked = [entry["path"] for entry in site.log()["requests"] if entry["actor"] == did and entry["time"] >= began]
    return Private(answer, place.posts_of(did), asked)


STORIES: dict[str, Callable[[Place, Sandbox], Any]] = {
    kind: partial(passing, account, fault) for kind, (account, fault, _) in PASSING.items()
}
STORIES |= {kind: run for kind, (run, _) in LASTING.items()}
STORIES |= {"hiccups": hiccups, "directory": directory_down, "private": private_server}


@pytest.mark.parametrize("story", PASSING)
def test_a_service_that_says_no_is_named_and_the_next_run_completes_the_crawl(
    story: str, told: Callable[[str], Told], site: Sandbox
) -> None:
    first, unfinished, second, posts = told(story)
    account, _, names = PASSING[story]
    for named in names:
        assert named in first.said
    assert first.is_for_people(), first.text
    assert first.code == 7, first.text
    assert unfinished
    assert second.is_for_people(), second.text
    assert second.code == 0, second.text
    assert posts == set(site.truth_of(seeds=[account], hops=0).posts)


@pytest.mark.parametrize("kind", HICCUPS)
@pytest.mark.parametrize("story", ["hiccups"])
def test_a_hiccup_of_the_service_costs_time_only(
    kind: str, story: str, told: Callable[[str], Overcome], site: Sandbox
) -> None:
    answer, posts, breaches = told(story)
    account, _, _, named = HICCUPS[kind]
    assert named in answer.said
    assert breaches == 0
    assert answer.is_for_people(), answer.text
    assert answer.code == 0, answer.text
    assert posts[site.did(account)] == set(site.truth_of(seeds=[account], hops=0).posts)


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, marks=pytest.mark.slow if run in (closed_port, no_such_name) else ())
        for story, (run, _) in LASTING.items()
    ],
)
def test_a_service_that_is_none_is_named(story: str, told: Callable[[str], Answer]) -> None:
    answer = told(story)
    for named in LASTING[story][1]:
        assert named in answer.said, answer.text
    assert answer.is_for_people(), answer.text
    assert answer.code == 7, answer.text


@pytest.mark.parametrize("story", ["directory"])
def test_accounts_whose_server_cannot_be_found_wait_and_nothing_of_them_is_stored(
    story: str, told: Callable[[str], tuple[Answer, set[str]]], site: Sandbox
) -> None:
    answer, posts = told(story)
    assert " network at 127.0.0.1:1 " in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == 7, answer.text
    assert posts == set()


@pytest.mark.parametrize("story", ["private"])
def test_a_did_document_leads_into_no_private_network(
    story: str, told: Callable[[str], Private], site: Sandbox
) -> None:
    answer, posts, asked = told(story)
    assert "declarations of 1 account" in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == 0, answer.text
    assert posts == set(site.truth_of(seeds=[30], hops=0).posts)
    assert asked
    assert [path for path in asked if "com.atproto" in path] == []
