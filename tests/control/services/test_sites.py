"""Sites: what is parked and why, and leaving a site alone, which can be undone."""

from datetime import UTC, datetime

import pytest
from pymongo.database import Database

from harvester.control.services.sites import SiteChange, Sites, SiteStatus
from harvester.exceptions import UnknownJob, UsageError
from harvester.frontier.store import Frontier
from harvester.jobs.service import JobService
from tests.frontier.pushes import push
from tests.numbers import numbers_of

WHO = "jane"
REASON = "they asked us to"


async def _site(sites: Sites, name: str = "x.test") -> SiteStatus:
    return next(each for each in (await sites.list()).sites if each.site == name)


async def test_a_site_that_is_held_has_its_requests_parked_and_says_who_wanted_it_and_why(
    service: JobService, frontier: Frontier, mongodb: Database[dict[str, object]]
) -> None:
    sites = Sites(service)
    await frontier.exchange("w", [push(number, site="x.test") for number in range(3)], 0, 10)
    await frontier.exchange("w", [push(9, site="y.test")], 0, 10)
    changed = await sites.change("feeds", "x.test", SiteChange("held", reason=REASON), WHO)
    assert (changed.changed, changed.before, changed.parked) == (True, "closed", 3)
    assert ("x.test" in changed.said, "held" in changed.said, numbers_of(changed.said)) == (True, True, [3])
    page = await sites.list()
    assert [(each.site, each.state, each.ready, each.parked) for each in page.sites] == [
        ("x.test", "held", 0, 3),
        ("y.test", "closed", 1, 0),
    ]
    held = page.sites[0]
    assert (held.spider, held.cause, held.said, held.until) == ("feeds", "person", REASON, None)
    assert [each.site for each in (await sites.list("feeds", left_alone=True)).sites] == ["x.test"]
    event = mongodb["events"].find_one({"site": "x.test"})
    assert event
    assert (event["by"], WHO in str(event["reason"]), REASON in str(event["reason"])) == (WHO, True, True)


async def test_a_wish_that_is_met_already_changes_nothing_and_says_so(service: JobService) -> None:
    sites = Sites(service)
    first = await sites.change("feeds", "x.test", SiteChange("held"), WHO)
    again = await sites.change("feeds", "x.test", SiteChange("held"), WHO)
    assert (first.changed, again.changed, again.undo) == (True, False, None)
    assert ("x.test" in again.said, "held" in again.said, numbers_of(again.said)) == (True, True, [0])


@pytest.mark.parametrize("before", ["closed", "held", "open"])
@pytest.mark.parametrize("wanted", ["closed", "held", "open"])
async def test_what_was_done_to_a_site_can_be_undone(
    service: JobService, frontier: Frontier, before: str, wanted: str
) -> None:
    sites = Sites(service)
    await frontier.exchange("w", [push(1, site="x.test")], 0, 10)
    await sites.change("feeds", "x.test", SiteChange(before, None, "before"), WHO)  # type: ignore[arg-type]
    was = await _site(sites)
    done = await sites.change("feeds", "x.test", SiteChange(wanted), WHO)  # type: ignore[arg-type]
    if done.undo:
        await sites.change("feeds", "x.test", done.undo, WHO)
    now = await _site(sites)
    assert (now.state, now.parked) == (was.state, was.parked)
    assert (now.until is None) == (was.until is None)


async def test_a_site_is_left_alone_for_a_time(service: JobService) -> None:
    sites = Sites(service)
    for state in ("held", "open"):
        began = datetime.now(UTC)
        await sites.change("feeds", "x.test", SiteChange(state, 3600), WHO)
        until = (await _site(sites)).until
        assert until
        assert 3500 < (until - began).total_seconds() < 4000


BAD: list[tuple[str, str, SiteChange]] = [
    ("nothing", "x.test", SiteChange("held")),
    ("feeds", "x\ny", SiteChange("held")),
    ("feeds", "", SiteChange("held")),
    ("feeds", "x.test", SiteChange("held", tier="residential")),
    ("feeds", "x.test", SiteChange("held", reason="x" * 501)),
    ("feeds", "x.test", SiteChange("held", reason="a\x1b[2J")),
    ("feeds", "x.test", SiteChange("closed", 60)),
    ("feeds", "x.test", SiteChange("open", 0)),
    ("feeds", "x.test", SiteChange("open", float("nan"))),
]


@pytest.mark.parametrize(("spider", "site", "wanted"), BAD)
async def test_what_cannot_be_is_refused_and_nothing_is_changed(
    service: JobService, spider: str, site: str, wanted: SiteChange
) -> None:
    with pytest.raises(UsageError):
        await Sites(service).change(spider, site, wanted, WHO)
    assert (await Sites(service).list()).sites == []


async def test_a_list_of_sites_is_bounded(service: JobService, frontier: Frontier) -> None:
    await frontier.exchange("w", [push(number, site=f"{number}.test") for number in range(5)], 0, 10)
    page = await Sites(service).list(most=3)
    assert (len(page.sites), page.more) == (3, True)
    with pytest.raises(UnknownJob, match="'nothing'"):
        await Sites(service).list("nothing")
