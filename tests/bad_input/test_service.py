"""A service that refuses, is not there, or is none: the run says so, what waits stays queued, the next one goes on."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from tests.bad_input.command import NO_WAITING, Answer, Place
from tests.sandbox.process import Sandbox


@dataclass(frozen=True)
class Passing:
    """A fault of the site that strikes what is asked about one account, until it is taken away."""

    account: int
    fault: str
    code: int
    says: tuple[str, ...]
    match: str = ".*"
    wishes: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = NO_WAITING
    hub: bool = False
    """Whether an account with many pages is harvested too, so that the errors are few among the answers."""


class Told(NamedTuple):
    first: Answer
    unfinished: bool
    """Whether the first run left work for the next."""
    second: Answer | None
    posts: set[str]
    """Of the account, in the end."""
    breaches: int
    """Requests during a silence that was asked for."""


PASSING = {
    "403 with HTML for everything": Passing(
        20,
        "html_403",
        7,
        ("refuses to answer (HTTP 403)", "Wait before you continue", "To continue, run the same command again"),
    ),
    "a web page for everything": Passing(
        21,
        "html_instead_of_json",
        7,
        ("does not answer as the Bluesky API does (the answer is not JSON)", "-a service="),
    ),
    "502 for everything": Passing(
        23,
        "server_error",
        7,
        ("cannot be reached (HTTP 502 UpstreamFailure", "To continue, run the same command again"),
    ),
    "500 for one call": Passing(
        24,
        "status",
        6,
        ("accounts failed 1: 1 feed: server error: HTTP 500", "To continue, run the same command again"),
        match="getAuthorFeed.*",
        wishes={"status": 500},
    ),
    "an answer that never comes": Passing(
        25,
        "hang",
        6,
        ("accounts failed 1: 1 feed: timeout: no answer in 1 seconds", "To continue, run the same command again"),
        match="getAuthorFeed.*",
        options=(*NO_WAITING, "-s", "DOWNLOAD_TIMEOUT=1"),
    ),
    "429 with HTML and no time": Passing(26, "html_429", 0, ("asks to wait 5 s",), wishes={"times": 1}, hub=True),
    "429 with Retry-After": Passing(
        27, "rate_limit", 0, ("asks to wait 1 s",), wishes={"seconds": 1, "times": 2}, match="getAuthorFeed.*", hub=True
    ),
    "connections reset now and then": Passing(
        31, "reset", 0, ("errors met 2: 2 network",), wishes={"times": 2}, match="getAuthorFeed.*", hub=True
    ),
}


def passing(kind: Passing, place: Place, site: Sandbox) -> Told:
    did = site.did(kind.account)
    number = site.fault(kind.fault, f"{kind.match}{did}", **kind.wishes)
    seeds = f"{did},{site.did(0)}" if kind.hub else did
    first = place.crawl(site, *kind.options, seeds=seeds)
    (fault,) = [fault for fault in site.faults() if fault["id"] == number]
    site.clear_faults(number)
    unfinished = place.database["crawls"].count_documents({"state": "unfinished"}) == 1
    second = place.crawl(site, *kind.options, seeds=seeds) if first.code else None
    return Told(first, unfinished, second, place.posts_of(did), len(fault["breaches"]))


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


LASTING: dict[str, tuple[Callable[[Place, Sandbox], Answer], tuple[str, ...]]] = {
    "a web site without the API": (
        web_site_without_api,
        ("does not answer as the Bluesky API does (HTTP 404: there is no such call)", "-a service="),
    ),
    "forbidden by robots.txt": (forbidden_to_robots, ("refuses to answer (Forbidden by robots.txt)",)),
    "a port where nobody listens": (closed_port, ("cannot be reached (no connection", "Is its address right")),
    "a name that does not resolve": (
        no_such_name,
        ("https://no-such-host.invalid cannot be reached (the host name cannot be resolved", "Is its address right"),
    ),
}


def directory_down(place: Place, site: Sandbox) -> tuple[Answer, set[str]]:
    place.variables["HARVESTER_PLC_URL"] = "http://127.0.0.1:1"
    return place.crawl(site, *NO_WAITING, seeds=f"{site.did(29)},{site.did(0)}"), place.posts_of(site.did(29))


def private_server(place: Place, site: Sandbox) -> tuple[Answer, set[str]]:
    """The DID documents of the site lead to 127.0.0.1."""
    place.variables["HARVESTER_ALLOW_PRIVATE_HOSTS"] = "false"
    return place.crawl(site, seeds=site.did(30)), place.posts_of(site.did(30))


STORIES: dict[str, Callable[[Place, Sandbox], Any]] = {kind: partial(passing, PASSING[kind]) for kind in PASSING}
STORIES |= {kind: run for kind, (run, _) in LASTING.items()}
STORIES |= {"directory": directory_down, "private": private_server}


@pytest.mark.parametrize("story", PASSING)
def test_a_fault_of_the_service_is_named_and_the_next_run_completes_the_crawl(
    story: str, told: Callable[[str], Told], site: Sandbox
) -> None:
    kind, (first, unfinished, second, posts, breaches) = PASSING[story], told(story)
    for sentence in kind.says:
        assert sentence in first.said
    assert first.is_for_people(), first.text
    assert first.code == kind.code, first.text
    assert breaches == 0
    if second:
        assert unfinished
        assert second.is_for_people(), second.text
        assert second.code == 0, second.text
    assert posts == set(site.truth_of(seeds=[kind.account], hops=0).posts)


@pytest.mark.parametrize("story", LASTING)
def test_a_service_that_is_none_is_named(story: str, told: Callable[[str], Answer]) -> None:
    answer = told(story)
    for sentence in LASTING[story][1]:
        assert sentence in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == 7, answer.text


@pytest.mark.parametrize(("story", "account", "code"), [("directory", 29, 6), ("private", 30, 0)])
def test_an_account_whose_server_cannot_or_must_not_be_asked_is_harvested_and_counted(
    story: str, account: int, code: int, told: Callable[[str], tuple[Answer, set[str]]], site: Sandbox
) -> None:
    answer, posts = told(story)
    assert "unknown: the account's own server could not be asked" in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == code, answer.text
    assert posts == set(site.truth_of(seeds=[account], hops=0).posts)


@pytest.mark.parametrize("story", ["private"])
def test_a_did_document_leads_into_no_private_network(
    story: str, told: Callable[[str], tuple[Answer, set[str]]], site: Sandbox
) -> None:
    told(story)
    asked = [entry["path"] for entry in site.log()["requests"] if entry["actor"] == site.did(30)]
    assert asked
    assert [path for path in asked if "com.atproto" in path] == []
