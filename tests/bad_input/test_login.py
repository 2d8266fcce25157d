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
        ("Invalid identifier or password", "app password"),
    ),
    "a server that is not there": (
        partial(log_in, HARVESTER_BLUESKY_PDS="http://127.0.0.1:1"),
        5,
        ("@127.0.0.1:1", "HARVESTER_BLUESKY_PDS"),
    ),
    "a damaged file of tokens": (
        damaged_file,
        0,
        (".json", "Logged in to bluesky"),
    ),
}
STORIES = {kind: run for kind, (run, *_) in KINDS.items()}


@pytest.mark.parametrize("story", KINDS)
def test_a_bad_login_is_named_without_its_password(story: str, told: Callable[[str], Answer], site: Sandbox) -> None:
    answer = told(story)
    _, code, names = KINDS[story]
    for named in names:
        assert named in answer.said, answer.text
    assert f"pw-{site.handle(ACCOUNT)}" not in answer.text
    assert "wrong-wrong" not in answer.text
    assert answer.is_for_people(), answer.text
    assert answer.code == code, answer.text
