"""Sites and their breakers; queues, workers and servers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field

from harvester.control.auth import READS, Caller, may
from harvester.control.context import Here
from harvester.control.problems import documented
from harvester.control.routes.submitting import Strict, Word
from harvester.control.services.queues import Queue, Queues, WorkerList
from harvester.control.services.servers import Servers, ServerStatus
from harvester.control.services.sites import (
    LONGEST_S,
    MOST,
    MOST_REASON,
    SiteChange,
    SiteChanged,
    Sites,
    SitesPage,
    Wanted,
)
from harvester.control.tokens import Scope

router = APIRouter(tags=["sites and workers"])

Operator = Annotated[Caller, Depends(may(Scope.OPERATE))]
OfSpider = Annotated[str, Query(max_length=200, description="Only those of this spider.")]
Most = Annotated[int, Query(ge=1, le=MOST, description="The most that are listed.")]


class BreakerBody(Strict):
    """What is wanted of a breaker."""

    state: Wanted
    """closed: ask the site; open, held: leave it alone."""
    seconds: float | None = Field(None, ge=1, le=LONGEST_S)
    """For how long it is open or held; then probes find out. Without: as the site's entry says; held: until changed."""
    reason: str = Field("", max_length=MOST_REASON)
    """Why, for others."""
    tier: Word = ""
    """Of the site's proxies: only its breaker is meant."""


@router.get("/sites", operation_id="list_sites", dependencies=[READS], responses=documented(404))
async def list_sites(here: Here, spider: OfSpider = "", left_alone: bool = False, limit: Most = 500) -> SitesPage:
    """Sites with requests, or with a breaker that is not closed; those that need somebody first."""
    return await Sites(here.jobs).list(spider, left_alone=left_alone, most=limit)


@router.put("/sites/{spider}/{site}/breaker", operation_id="set_breaker", responses=documented(404))
async def set_breaker(
    here: Here,
    caller: Operator,
    spider: Annotated[str, Path(max_length=200)],
    site: Annotated[str, Path(max_length=300, description="Its name; of a site without an entry its host.")],
    body: BreakerBody,
) -> SiteChanged:
    """Leave a site alone, for a time or until somebody changes it; or ask it again. The answer says what undoes it."""
    wanted = SiteChange(body.state, body.seconds, body.reason, body.tier)
    return await Sites(here.jobs).change(spider, site, wanted, caller.token.name)


@router.get("/queues", operation_id="list_queues", dependencies=[READS], responses=documented(404))
async def list_queues(here: Here, spider: OfSpider = "") -> list[Queue]:
    """How many requests of each spider are where."""
    return await Queues(here.jobs).depths(spider)


@router.get("/workers", operation_id="list_workers", dependencies=[READS], responses=documented(404))
async def list_workers(here: Here, spider: OfSpider = "", limit: Most = 500) -> WorkerList:
    """Who fetches, what each holds, and when it was last heard of."""
    return await Queues(here.jobs).workers(spider, limit)


@router.get("/servers", operation_id="show_servers", dependencies=[READS])
async def show_servers(here: Here) -> Servers:
    """MongoDB, Redis and the folders: whether they are there, how large they are, how much room is left."""
    return await ServerStatus(here.jobs).read()
