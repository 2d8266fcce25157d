"""Two workers crawl fifty sites of which thirty are not well: nobody is asked too much, and nobody waits for another.

Beside it, on the same machine at the same time, two other workers crawl fifty sites that are all well: the well ones of
the first fifty must be done as soon as those in their places.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from harvester.frontier.messages import DeadLetter, FrontierStatus
from tests.chaos.servers import Valkey
from tests.ports import free_port
from tests.sandbox.street_house import Seen
from tests.sandbox.street_plan import HousePlan, whole_street
from tests.sandbox.street_process import Street
from tests.street.registry import CREDENTIALS, OPEN_S, tables
from tests.street.watch import Open, Watch, asked
from tests.street.workers import Workers

RATE = 1.5
"""Requests a second to a site whose entry says nothing of it."""
AT_ONCE = 4
WINDOW_S = 10.0
"""A shorter one would tell two workers of which each keeps the rate by itself less well from late requests."""
HEARD_S = 2.0
"""Until all workers know that a breaker is open."""
PROBES = 3
"""Of a breaker, by default."""
SLOWER = 1.10
"""How much longer than without bad sites the well ones may take."""
KEPT_PACE = 1.05
"""How much longer than the rate allows they may take without bad sites on a machine that is not too busy."""
MUCH_SLOWER = 2.0
"""On one that is: whose turn it is there is chance. Were the well ones to wait for the bad ones, it would be more."""


class Crawled(NamedTuple):
    """What a crawl of the street came to."""

    plans: dict[str, HousePlan]
    counts: dict[str, dict[str, int]]
    logs: dict[str, list[Seen]]
    openings: set[Open]
    status: FrontierStatus
    dead: list[DeadLetter]
    said: str


def crawl(folder: Path, pages: int, mongodb: Mapping[str, str], longest_s: float) -> Crawled:
    """The fifty sites, and by others a well one in the place of each."""
    fifty = whole_street(pages)
    calm = [HousePlan(f"calm-{plan.name}", pages=pages, delay_s=plan.delay_s) for plan in fifty]
    with Street([*fifty, *calm], folder / "street") as street, Valkey(folder / "valkey", free_port()) as valkey:
        variables = {
            **CREDENTIALS,
            **mongodb,
            "HARVESTER_SITES_DIR": str(street.register(folder / "sites", tables(street))),
            "HARVESTER_REQUESTS_PER_SECOND": str(RATE),
            "HARVESTER_CONCURRENT_PER_HOST": str(AT_ONCE),
        }
        here, there = ({"HARVESTER_REDIS_URL": f"{valkey.uri.removesuffix('/0')}/{number}"} for number in (0, 1))
        there["HARVESTER_DATABASE"] = mongodb["HARVESTER_DATABASE"] + "-calm"
        with (
            Workers(street, [plan.name for plan in fifty], folder / "fifty", variables | here) as workers,
            Workers(street, [plan.name for plan in calm], folder / "calm", variables | there) as others,
            Watch(here["HARVESTER_REDIS_URL"], mongodb["HARVESTER_DATABASE"]) as watch,
        ):
            for crawl in (workers, others, workers, others):
                crawl.start()
            others.end(longest_s)
            workers.end(longest_s)
            said = workers.said
        logs = {name: street.log(name) for name in street.plans}
        status, dead = asked(here["HARVESTER_REDIS_URL"], mongodb["HARVESTER_DATABASE"])
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
    well_sites_are_done_as_soon_as_without_bad_ones(crawled, pages)


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
    """The limited sites count for themselves what is over their limits: not one may be.

    Of the others, a window may hold the turns of its time and one at its edge, and as many as may be under way at once
    that came late from the time before: no more can be late, however busy the machine is.
    """
    over = {name: counts["over"] for name, counts in crawled.counts.items() if "over" in counts}
    assert not over
    for name, plan in crawled.plans.items():
        if plan.kind != "limited":
            most = most_within([seen.at for seen in turns(crawled.logs[name])], WINDOW_S)
            assert most <= RATE * WINDOW_S + 1 + AT_ONCE, f"{name} saw {most} requests within {WINDOW_S} s"


def turns(log: Sequence[Seen]) -> list[Seen]:
    """What harvester asked for: without what its HTTP client asked once more after it was broken off."""
    asked, broken_off = [], set[tuple[str, str]]()
    for seen in log:
        key = (seen.agent, seen.path)
        if key in broken_off:
            broken_off.remove(key)
            continue
        asked.append(seen)
        if not seen.status:
            broken_off.add(key)
    return asked


def what_is_open_is_left_alone(crawled: Crawled) -> None:
    """Each site in trouble had its breaker open; meanwhile only those came which were under way when it opened.

    They are no more than may be under way at once, and come before all workers know. When a probe failed they are the
    other probes, which come when it is their turn.
    """
    troubled = {name for name, plan in crawled.plans.items() if plan.least}
    assert {opening.site for opening in crawled.openings} >= troubled
    for opening in crawled.openings:
        times = [seen.at for seen in turns(crawled.logs[opening.site])]
        within = [at for at in times if opening.since <= at < opening.until]
        if opening.until - opening.since > 1.5 * OPEN_S:  # a probe failed
            assert len(within) <= PROBES - 1, f"{opening}: {len(within)} requests while it was open"
        else:
            late = [at for at in within if at >= opening.since + HEARD_S]
            assert len(within) <= AT_ONCE, f"{opening}: {len(within)} requests before all knew"
            assert not late, f"{opening}: {len(late)} requests while it was open"


def well_sites_are_done_as_soon_as_without_bad_ones(crawled: Crawled, pages: int) -> None:
    names = [name for name in crawled.plans if name.startswith("well")]
    well, calm = (lasted([crawled.logs[prefix + name] for name in names]) for prefix in ("", "calm-"))
    allowed = (pages - 1) / RATE
    kept = calm <= KEPT_PACE * allowed
    print(
        f"{sum(map(len, crawled.logs.values()))} requests came; the well sites took {well:.1f} s, without bad ones"
        f" {calm:.1f} s; the rate allows {allowed:.1f} s ({'kept' if kept else 'not kept'})"
    )
    assert well <= calm * (SLOWER if kept else MUCH_SLOWER)


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
