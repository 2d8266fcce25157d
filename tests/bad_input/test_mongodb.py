"""A MongoDB that is not there, refuses, or goes away: a pause when it can be one, else exit code 3 or 4."""

import signal
from collections.abc import Callable

import pytest

from tests.bad_input.command import Answer, Place, begun
from tests.crash.harvest import Harvest, documents, fates, stored
from tests.crash.mongod import Mongod
from tests.crash.nothing_lost import untruths
from tests.sandbox.process import Sandbox

REMEDY = "Check HARVESTER_MONGODB_URI and that the server runs, or unset it"
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
            f"mongodb://127.0.0.1:{free_port}/": "MongoDB refuses harvester: ",
            f"mongodb://writer:very-wrong@127.0.0.1:{free_port}/": "MongoDB refuses harvester: Authentication failed",
        }
        for address, says in expected.items():
            place.variables["HARVESTER_MONGODB_URI"] = address
            answer = place.crawl(site, seeds=site.did(20))
            assert says in answer.said
            assert REMEDY in answer.said
            assert "very-wrong" not in answer.text
            assert answer.is_for_people(), answer.text
            assert answer.code == 3, answer.text


def test_a_mongodb_that_goes_away_is_waited_for(place: Place, site: Sandbox, free_port: int) -> None:
    with Mongod(place.folder / "mongodb", free_port) as server, server.client() as client:
        database = client["gone"]
        harvest = Harvest(site, place.folder / "crawl", server.uri, database.name)
        with begun(harvest):
            assert harvest.running_until(lambda: documents(database) > 100), harvest.said
            server.end(signal.SIGKILL)
            assert harvest.running_until(lambda: "the crawl pauses until it is back" in harvest.said), harvest.said
            server.start()
            assert harvest.wait() == 0, harvest.said
        assert "MongoDB is back; the crawl goes on" in harvest.said
        assert Answer(0, harvest.said).is_for_people(), harvest.said
        assert untruths(site, stored(database), fates(database)["accounts"]) == []
