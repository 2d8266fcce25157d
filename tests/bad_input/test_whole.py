"""What befalls the harvest of a whole network: it is said, and nothing of it is lost."""

import re
from collections.abc import Iterator

import pytest

from tests.bad_input.command import Answer, Place, begun
from tests.crash.harvest import Harvest, documents, fates, stored
from tests.crash.nothing_lost import untruths
from tests.sandbox.process import Sandbox


@pytest.fixture(scope="module")
def site() -> Iterator[Sandbox]:
    """20 accounts, all of which are harvested."""
    with Sandbox(accounts=20, posts=5, page_size=5) as site:
        yield site


def harvest_of(place: Place, site: Sandbox) -> Harvest:
    place.set_breaker(site, "open_seconds = 1\nmost_open_seconds = 1")
    variables = {
        "HARVESTER_SITES_DIR": place.variables["HARVESTER_SITES_DIR"],
        "HARVESTER_PARKED_SECONDS": "0",
    }
    return Harvest(
        site, place.folder / "crawl", place.variables["HARVESTER_MONGODB_URI"], place.database.name, variables
    )


@pytest.mark.soak
def test_a_service_that_begins_to_refuse_is_left_alone_and_the_next_run_completes_the_harvest(
    place: Place, site: Sandbox
) -> None:
    number = site.fault("html_403", "/xrpc/", after=100)
    harvest = harvest_of(place, site)
    assert harvest.run() == 7, harvest.said
    (fault,) = [fault for fault in site.faults() if fault["id"] == number]
    site.clear_faults(number)
    host = re.escape(site.url.removeprefix("http://"))
    assert re.search(rf"{host} .*\(HTTP 403\)", harvest.said), harvest.said
    ended = fates(place.database)["account"].values()
    assert any(how not in ("posts_collected", "failed", "skipped") for how, _ in ended), harvest.said
    assert fault["struck"] < 150, "it is asked no more when it has refused a few times"
    assert Answer(7, harvest.said).is_for_people(), harvest.said
    harvest.run()  # an account of which some requests were parked, and another was refused, waits once more
    assert harvest.run() == 0, harvest.said
    assert untruths(site, stored(place.database), fates(place.database)["account"]) == []


@pytest.mark.slow
def test_the_same_command_typed_twice_runs_one_crawl_in_two_processes(place: Place, site: Sandbox) -> None:
    slow = site.fault("slow", "getAuthorFeed", seconds=1)
    first, second = harvest_of(place, site), harvest_of(place, site)
    second.log = place.folder / "second.log"
    with begun(first):
        assert first.running_until(lambda: documents(place.database) > 0), first.said
        with begun(second):
            assert second.running_until(lambda: "Continuing the job" in second.said), second.said
            site.clear_faults(slow)
            assert (first.wait(), second.wait()) == (0, 0), first.said + second.said
    for harvest in (first, second):
        assert Answer(0, harvest.said).is_for_people(), harvest.said
        assert "is complete" in harvest.said
        assert "accounts left" not in harvest.said
        assert "threads left" not in harvest.said
    assert untruths(site, stored(place.database), fates(place.database)["account"]) == []
