"""A MongoDB that is not there or refuses: exit code 3. One that goes away is in tests/crash/test_outage.py."""

from collections.abc import Callable

import pytest

from tests.bad_input.command import Answer, Place
from tests.crash.mongod import Mongod
from tests.sandbox.process import Sandbox

REMEDY = "HARVESTER_MONGODB_URI"
NOWHERE = "mongodb://reader:very-secret@127.0.0.1:1/"


def crawl_nowhere(place: Place, site: Sandbox) -> Answer:
    place.variables["HARVESTER_MONGODB_URI"] = NOWHERE
    return place.crawl(site)


def report_nowhere(place: Place, site: Sandbox) -> Answer:
    place.variables["HARVESTER_MONGODB_URI"] = NOWHERE
    return place.run("harvester", "report")


def purge_nowhere(place: Place, site: Sandbox) -> Answer:
    place.variables["HARVESTER_MONGODB_URI"] = NOWHERE
    return place.run("harvester", "purge", "--yes", "--account", site.did(0))


STORIES: dict[str, Callable[[Place, Sandbox], Answer]] = {
    "crawl": crawl_nowhere,
    "report": report_nowhere,
    "purge": purge_nowhere,
}


@pytest.mark.parametrize("story", STORIES)
def test_without_mongodb_no_command_begins(story: str, told: Callable[[str], Answer]) -> None:
    answer = told(story)
    assert "127.0.0.1:1: [Errno" in answer.said
    assert REMEDY in answer.said
    assert "very-secret" not in answer.text
    assert answer.is_for_people(), answer.text
    assert answer.code == 3, answer.text


def test_a_mongodb_that_refuses_is_named_without_the_password(place: Place, site: Sandbox, free_port: int) -> None:
    with Mongod(place.folder / "mongodb", free_port, "--auth") as server:
        with server.client() as client:
            client.admin.command("createUser", "writer", pwd="right", roles=["root"])
        expected = {
            f"mongodb://127.0.0.1:{free_port}/": "MongoDB refuses",
            f"mongodb://writer:very-wrong@127.0.0.1:{free_port}/": "Authentication failed",
        }
        for address, says in expected.items():
            place.variables["HARVESTER_MONGODB_URI"] = address
            answer = place.crawl(site, seeds=site.did(20))
            assert says in answer.said
            assert REMEDY in answer.said
            assert "very-wrong" not in answer.text
            assert answer.is_for_people(), answer.text
            assert answer.code == 3, answer.text
