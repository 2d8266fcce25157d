"""Logins that are refused, cannot be had, or were kept badly."""

from collections.abc import Callable
from functools import partial
from urllib.parse import quote, urlsplit

import pytest

from tests.bad_input.command import NO_WAITING, Answer, Place
from tests.sandbox.process import Sandbox

ACCOUNT = 20


def log_in(place: Place, site: Sandbox, **variables: str) -> Answer:
    handle = site.handle(ACCOUNT)
    place.variables |= {
        "HARVESTER_BLUESKY_PDS": site.url,
        "HARVESTER_BLUESKY_IDENTIFIER": handle,
        "HARVESTER_BLUESKY_APP_PASSWORD": f"pw-{handle}",
        **variables,
    }
    return place.crawl(site, *NO_WAITING, seeds=site.did(ACCOUNT))


def damaged_file(place: Place, site: Sandbox) -> Answer:
    name = quote(f"bluesky.{site.handle(ACCOUNT)}@{urlsplit(site.url).netloc}", safe="@")
    kept = place.folder / "state" / "sessions" / f"{name}.json"
    kept.parent.mkdir(parents=True)
    kept.write_text('{"did": "did:plc:')
    return log_in(place, site)


KINDS: dict[str, tuple[Callable[[Place, Sandbox], Answer], int, tuple[str, ...]]] = {
    "a wrong password": (
        partial(log_in, HARVESTER_BLUESKY_APP_PASSWORD="wrong-wrong"),
        5,
        ("refused the login of ", "Invalid identifier or password", "Create an app password in Bluesky"),
    ),
    "a server that is not there": (
        partial(log_in, HARVESTER_BLUESKY_PDS="http://127.0.0.1:1"),
        5,
        ("There is no session of ", "@127.0.0.1:1: the login failed: ", "HARVESTER_BLUESKY_PDS says where to log in"),
    ),
    "a damaged file of tokens": (
        damaged_file,
        0,
        ("holds no session; it is ignored and will be replaced", "Logged in to bluesky as "),
    ),
}
STORIES = {kind: run for kind, (run, *_) in KINDS.items()}


@pytest.mark.parametrize("story", KINDS)
def test_a_bad_login_is_named_without_its_password(story: str, told: Callable[[str], Answer], site: Sandbox) -> None:
    answer = told(story)
    _, code, says = KINDS[story]
    for sentence in says:
        assert sentence in answer.said, answer.text
    assert f"pw-{site.handle(ACCOUNT)}" not in answer.text
    assert "wrong-wrong" not in answer.text
    assert answer.is_for_people(), answer.text
    assert answer.code == code, answer.text
