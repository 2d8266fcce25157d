"""Pictures that are none, and places that cannot hold them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.bad_input.command import NO_WAITING, Answer, Place, unprivileged
from tests.sandbox.process import Sandbox

GOOD = 20

KINDS: dict[str, tuple[int, str, str, dict[str, Any]]] = {
    "an image bomb": (21, "image_bomb", "too_many_pixels: ", {}),
    "a truncated picture": (22, "image_truncated", "truncated: ", {}),
    "a web page": (23, "image_wrong_type", "not_an_image: ", {}),
    "a picture that is not there": (25, "status", "not_found", {"status": 404}),
    "a huge picture": (26, "huge", "too_large: ", {"megabytes": 2}),
    "nothing at all": (27, "empty_body", "network: ", {}),
}
"""Kind -> account, fault of its avatar, outcome, wishes of the fault."""

Paths = dict[str, dict[str, str]]


class Told(NamedTuple):
    first: Answer
    stored: Paths
    """DID -> slot -> path, after the first run."""
    second: Answer
    complete: Paths


def bad_pictures(place: Place, site: Sandbox) -> Told:
    place.variables["HARVESTER_MAX_IMAGE_MB"] = "1"
    faults = [
        site.fault(fault, f"/img/avatar/plain/{site.did(number)}", **wishes)
        for number, fault, _, wishes in KINDS.values()
    ]
    seeds = ",".join(site.did(number) for number in (GOOD, *(number for number, *_ in KINDS.values())))
    first, stored = place.crawl(site, *NO_WAITING, seeds=seeds, media="yes", collect="profiles"), paths(place)
    site.clear_faults(*faults)
    second = place.crawl(site, *NO_WAITING, seeds=seeds, media="yes", collect="profiles")
    return Told(first, stored, second, paths(place))


def paths(place: Place) -> Paths:
    return {row["_id"]: row.get("media_paths", {}) for row in place.database["profiles"].find()}


def unwritable_folder(place: Place, site: Sandbox) -> Answer:
    (place.folder / "data" / "images").mkdir(parents=True)
    (place.folder / "data" / "images").chmod(0o555)
    return place.crawl(site, seeds=site.did(GOOD), media="yes", collect="profiles", wrapper=unprivileged())


def file_as_folder(place: Place, site: Sandbox) -> Answer:
    (place.folder / "pictures").touch()
    place.variables["HARVESTER_IMAGES_STORE"] = "pictures"
    return place.crawl(site, media="yes")


def bucket(place: Place, site: Sandbox, **variables: str) -> Answer:
    place.variables |= {"HARVESTER_IMAGES_STORE": "s3://pictures/harvest", "AWS_DEFAULT_REGION": "us-east-1"}
    place.variables |= {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "wrong", "AWS_MAX_ATTEMPTS": "1"}
    place.variables |= variables
    return place.crawl(site, media="yes", seeds=site.did(GOOD), collect="profiles")


STORES: dict[str, tuple[Callable[[Place, Sandbox], Answer], tuple[str, ...]]] = {
    "a folder without permission": (unwritable_folder, (f"{Path('data', 'images')}: Permission denied",)),
    "a file instead of a folder": (file_as_folder, ("pictures: File exists", "HARVESTER_IMAGES_STORE")),
    "a bucket at a port where nobody listens": (
        partial(bucket, AWS_ENDPOINT_URL="http://127.0.0.1:1"),
        ("bucket pictures: ", "http://127.0.0.1:1"),
    ),
}
STORIES: dict[str, Callable[[Place, Sandbox], Any]] = {"pictures": bad_pictures}
STORIES |= {kind: run for kind, (run, _) in STORES.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("story", ["pictures"])
def test_a_bad_picture_is_named_and_costs_no_record_and_the_next_crawl_has_it(
    kind: str, story: str, told: Callable[[str], Told], site: Sandbox
) -> None:
    first, stored, second, complete = told(story)
    number, _, outcome, _ = KINDS[kind]
    did = site.did(number)
    (line,) = [line for line in first.text.splitlines() if f"{site.url}/img/avatar/plain/{did}" in line]
    assert outcome in line
    assert f"images failed {len(KINDS)}: " in first.said
    assert "avatar" not in stored[did]
    assert "avatar" in stored[site.did(GOOD)]
    assert "avatar" in complete[did]
    assert first.is_for_people(), first.text
    assert (first.code, second.code) == (0, 0)


@pytest.mark.parametrize("story", STORES)
def test_a_place_that_cannot_hold_pictures_is_named(story: str, told: Callable[[str], Answer]) -> None:
    answer = told(story)
    for named in STORES[story][1]:
        assert named in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == 4, answer.text
