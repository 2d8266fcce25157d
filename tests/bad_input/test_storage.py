"""Folders that cannot hold what is harvested: exit code 4, and the next run completes the crawl."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.bad_input.command import Answer, Place, unprivileged
from tests.bad_input.room import little_room
from tests.crash.harvest import fates, stored
from tests.crash.nothing_lost import unstaged
from tests.sandbox.process import Sandbox

REMEDY = "HARVESTER_DATA_DIR"
GIVEN_UP = "given up"
SEEDS = range(40, 52)


class Told(NamedTuple):
    first: Answer
    second: Answer
    lost: list[str]
    """Stored records that were not staged."""
    posts: set[str]


def crawl(place: Place, site: Sandbox, prefix: Sequence[str] = (), wrapper: Sequence[str] = ()) -> Answer:
    return place.crawl(site, seeds=",".join(map(site.did, SEEDS)), prefix=prefix, wrapper=wrapper)


def file_as_folder(place: Place, site: Sandbox) -> Answer:
    (place.folder / "data").touch()
    return crawl(place, site)


def unwritable_folder(place: Place, site: Sandbox) -> Answer:
    (place.folder / "data").mkdir(mode=0o555)
    return crawl(place, site, wrapper=unprivileged())


def no_room(place: Place, site: Sandbox) -> Told:
    (place.folder / "data").mkdir()
    with little_room(place.folder / "data") as (prefix, make_room):
        first = crawl(place, site, prefix=prefix)
        make_room()
        second = crawl(place, site)
        lost = unstaged(place.folder / "data", stored(place.database), fates(place.database)["account"])
    return Told(first, second, lost, set().union(*(place.posts_of(site.did(number)) for number in SEEDS)))


def state_is_a_file(place: Place, site: Sandbox, **variables: str) -> Answer:
    place.variables |= variables
    (place.folder / "state").touch()
    return place.crawl(site)


FOLDERS: dict[str, tuple[Callable[[Place, Sandbox], Answer], str]] = {
    "a file instead of the folder": (file_as_folder, "Not a directory"),
    "a folder without permission": (unwritable_folder, "Permission denied"),
}
STATES: dict[str, tuple[Callable[[Place, Sandbox], Answer], int, str]] = {
    "state for a private server": (
        partial(state_is_a_file, HARVESTER_MONGODB_URI=""),
        3,
        "HARVESTER_STATE_DIR",
    ),
}
STORIES: dict[str, Callable[[Place, Sandbox], Any]] = {kind: run for kind, (run, *_) in STATES.items()}
STORIES |= {kind: run for kind, (run, _) in FOLDERS.items()} | {"no room": no_room}


@pytest.mark.parametrize("story", FOLDERS)
def test_a_folder_that_cannot_be_made_is_named_before_anything_is_fetched(
    story: str, told: Callable[[str], Answer]
) -> None:
    answer = told(story)
    for named in (str(Path("data", "staging", "bluesky")), FOLDERS[story][1], REMEDY, GIVEN_UP, "0 pages"):
        assert named in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == 4, answer.text


@pytest.mark.parametrize("story", ["no room"])
def test_without_room_the_run_ends_and_the_next_one_completes_it(
    story: str, told: Callable[[str], Told], site: Sandbox
) -> None:
    first, second, lost, posts = told(story)
    assert re.search(r"\.jsonl\.zst\.open\b.*(No space left|File too large)", first.said)
    for named in (REMEDY, GIVEN_UP, "scrapy crawl bluesky"):
        assert named in first.said
    assert len(first.text.splitlines()) < 60, "one cause is said once"
    assert first.is_for_people(), first.text
    assert first.code == 4, first.text
    assert second.is_for_people(), second.text
    assert second.code == 0, second.text
    assert lost == []
    assert posts == set(site.truth_of(seeds=SEEDS, hops=0).posts)


@pytest.mark.parametrize("story", STATES)
def test_a_state_folder_that_is_a_file_is_named(story: str, told: Callable[[str], Answer]) -> None:
    answer = told(story)
    _, code, named = STATES[story]
    assert named in answer.said
    assert "state" in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == code, answer.text
