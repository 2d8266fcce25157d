"""Two workers crawl fifty sites of which thirty are not well: nobody is asked too much, and nobody waits for another.

Beside it, on the same machine at the same time, two other workers crawl twenty well sites alone: the well ones of the
fifty must be done as soon as these.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from harvester.frontier.entries import DeadLetter, Status
from tests.chaos.servers import Valkey
from tests.crash.mongod import free_port
from tests.sandbox.street_house import Seen
from tests.sandbox.street_plan import HousePlan, whole_street
from tests.sandbox.street_process import Street
from tests.street.registry import CREDENTIALS, tables
from tests.street.watch import Open, Watch, asked
from tests.street.workers import Workers

RATE = 3
"""Requests a second that a site allows which says nothing of it, kept by HARVESTER_REQUESTS_PER_SECOND."""
LATE_S = 1.5
"""How much later than meant a request may arrive: its turn was used late, the machine was busy."""
HEARD_S = 2.0
"""Until all workers know that a breaker is open."""
AT_ONCE = 4
PROBES = 3
"""Of a breaker, by default."""
TRIES = 2
"""aiohttp's, of a GET whose kept connection is broken off."""
SLOWER = 1.10
KEPT_PACE = 1.25
"""How much longer than the rate allows the well sites may take by themselves on a machine that is not too busy."""


class Crawled(NamedTuple):
    """What a crawl of the street came to."""

    plans: dict[str, HousePlan]
    counts: dict[str, dict[str, int]]
    logs: dict[str, list[Seen]]
    openings: set[Open]
    status: Status
    dead: list[DeadLetter]
    said: str


def crawl(folder: Path, pages: int, mongodb: Mapping[str, str], longest_s: float) -> Crawled:
    """The fifty sites, and as many well ones by themselves as there are among them."""
    fifty = whole_street(pages)
    calm = [HousePlan(f"calm-{number:02}", pages=pages) for number in range(20)]
    with Street([*fifty, *calm], folder / "street") as street, Valkey(folder / "valkey", free_port()) as valkey:
        variables = {
            **CREDENTIALS,
            **mongodb,
            "HARVESTER_SITES_DIR": str(street.register(folder / "sites", tables(street))),
            "HARVESTER_REQUESTS_PER_SECOND": str(RATE),
            "HARVESTER_CONCURRENT_PER_HOST": str(AT_ONCE),
        }
        here, there = ({"HARVESTER_REDIS_URL": f"{valkey.uri.removesuffix('/0')}/{number}"} for number in (0, 1))
        with (
            Workers(street, [plan.name for plan in fifty], folder / "fifty", variables | here) as workers,
            Workers(street, [plan.name for plan in calm], folder / "calm", variables | there) as others,
            Watch(here["HARVESTER_REDIS_URL"]) as watch,
        ):
            for crawl in (workers, others, workers, others):
                crawl.start()
            others.end(longest_s)
            workers.end(longest_s)
            said = workers.said
        logs = {name: street.log(name) for name in street.plans}
        status, dead = asked(here["HARVESTER_REDIS_URL"])
        return Crawled(street.plans, street.counts(), logs, watch.openings, status, dead, said)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("pages", [40, 400])
def test_fifty_sites_are_each_crawled_as_they_allow_and_no_slower_for_the_others(
    tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str, pages: int
) -> None:
    events = {"HARVESTER_MONGODB_URI": mongodb_uri, "HARVESTER_DATABASE": mongodb.name}
    crawled = crawl(tmp_path, pages, events, longest_s=200 + 3 * pages)
    every_input_has_a_fate(crawled, pages)
    no_site_is_asked_more_than_it_allows(crawled)
    what_is_open_is_left_alone(crawled)
    well_sites_are_done_as_soon_as_by_themselves(crawled, pages)


def every_input_has_a_fate(crawled: Crawled, pages: int) -> None:
    """All troubles pass, so that it is a good one."""
    status = crawled.status
    assert status.balanced
    dead = [(letter.url, letter.outcome, letter.reason) for letter in crawled.dead]
    assert not dead, f"{dead}\n{crawled.said}"
    assert (status.queued, status.done_by_outcome) == (50 * pages, {"ok": 50 * pages})
    short = {name: counts.get("pages", 0) for name, counts in crawled.counts.items() if counts["pages"] < pages}
    assert not short


def no_site_is_asked_more_than_it_allows(crawled: Crawled) -> None:
    over = {name: counts["over"] for name, counts in crawled.counts.items() if "over" in counts}
    assert not over
    for name, log in crawled.logs.items():
        times = [seen.at for seen in log]
        most = most_within(times, 5.0)
        assert most <= RATE * (5.0 + LATE_S) + 1, f"{name} saw {most} requests within 5 s"


def what_is_open_is_left_alone(crawled: Crawled) -> None:
    troubled = {name for name, plan in crawled.plans.items() if plan.least}
    assert {opening.site for opening in crawled.openings} >= troubled
    met: set[str] = set()
    for opening in sorted(crawled.openings, key=lambda each: each.since):
        times = [seen.at for seen in crawled.logs[opening.site]]
        within = [at for at in times if opening.since <= at < opening.until]
        late = [at for at in within if at >= opening.since + HEARD_S]
        if opening.site in met:  # other probes were out when one of them failed
            assert len(within) <= (PROBES - 1) * TRIES, f"{opening}: {len(within)} requests while it was open"
        else:
            assert len(within) <= AT_ONCE * TRIES, f"{opening}: {len(within)} requests before all knew"
            assert not late, f"{opening}: {len(late)} requests while it was open"
        met.add(opening.site)


def well_sites_are_done_as_soon_as_by_themselves(crawled: Crawled, pages: int) -> None:
    """When the machine is too busy for the rate, the pages alone make the difference: there are 50 sites, not 20."""
    well, calm = (
        [crawled.logs[name] for name in crawled.plans if name.startswith(prefix)] for prefix in ("well", "calm")
    )
    kept_pace = lasted(calm) <= KEPT_PACE * (pages - 1) / RATE
    most = (SLOWER if kept_pace else 50 / 20) * lasted(calm)
    assert lasted(well) <= most, f"{lasted(well):.1f} s, and {lasted(calm):.1f} s by themselves"


def lasted(logs: Sequence[Sequence[Seen]]) -> float:
    """Seconds that the slowest of the sites took."""
    pages = [[seen.at for seen in log if seen.path.startswith("/page/")] for log in logs]
    return max(times[-1] - times[0] for times in pages)


def most_within(times: Sequence[float], seconds: float) -> int:
    """The most that fell into any window of that length. `times` in order."""
    most = first = 0
    for last, at in enumerate(times):
        while times[first] <= at - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
