"""Feeds, endpoints and other items of recurring jobs."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from harvester.control.auth import OPERATES, READS
from harvester.control.context import Here
from harvester.control.cursors import After, Limit, cursor_of, place_of
from harvester.control.problems import documented
from harvester.control.routes.submitting import Name, Often, Strict, Word
from harvester.control.services.action_result import ActionResult
from harvester.control.services.watching import MOST_CHANGED, NewItem, WatchedPage, Watching
from harvester.jobs.recurring import Standing
from harvester.jobs.submission import Submitted

router = APIRouter(prefix="/watched", tags=["feeds and endpoints"])

Filter = Annotated[str, Query(max_length=200)]


class ItemBody(Strict):
    """What is to be watched."""

    key: Name
    """A feed's address, an endpoint's name."""
    input: dict[Word, Any] = Field({})
    """What its spider needs besides; of an endpoint the fields of its table."""


class AddBody(Strict):
    """Items for a standing job."""

    spider: Word
    items: list[ItemBody] = Field(min_length=1, max_length=MOST_CHANGED)
    job: Word = ""
    """Which, where the spider has several."""
    kind: Word = ""
    """Of the items; without: the first of the spider's kinds."""
    often: Often = None
    """How many times as often as the job's policy says they are looked at."""


class ChangeRecurringBody(Strict):
    """What is to be another of items."""

    job: Word
    items: list[Name] = Field(min_length=1, max_length=MOST_CHANGED)
    """Ids or keys."""
    input: dict[Word, Any] = Field({})
    """Fields of what they ask for; an empty text takes one away."""
    often: Often = None


class RemoveBody(Strict):
    """Which items."""

    job: Word
    items: list[Name] = Field(min_length=1, max_length=MOST_CHANGED)
    """Ids or keys."""


class RestartBody(Strict):
    """Which items: those named, or all that have failed."""

    spider: Word = ""
    job: Word = ""
    items: list[Name] = Field([], max_length=MOST_CHANGED)
    """Ids or keys. None: all that have failed."""
    expect: int | None = Field(None, ge=0, le=1_000_000)
    """How many have failed, as was shown: refused when there are more."""


@router.get("", operation_id="list_watched", dependencies=[READS], responses=documented(404, 409))
async def list_watched(
    here: Here,
    spider: Filter = "",
    job: Filter = "",
    standing: Annotated[list[Standing], Query(description="Only those that stand so.")] = [],  # noqa: B006
    text: Filter = "",
    limit: Limit = 100,
    after: After = "",
) -> WatchedPage:
    """Items of standing jobs that go on, and how each stands."""
    filters = spider, job, sorted(standing), text
    place = place_of(after, str, *filters) if after else ""
    page = await Watching(here.jobs).list(spider, job, standing, text, str(place), limit)
    return replace(page, next=cursor_of(page.next, *filters)) if page.next else page


@router.post("", operation_id="add_watched", dependencies=[OPERATES], responses=documented(404, 409, 507))
async def add_watched(here: Here, body: AddBody) -> Submitted:
    """Watch something from now on. What is watched already stays as it is; what was removed is there again."""
    items = [NewItem(each.key, each.input) for each in body.items]
    return await Watching(here.jobs).add(body.spider, items, body.job, body.kind, body.often)


@router.patch("", operation_id="change_watched", dependencies=[OPERATES], responses=documented(404, 409))
async def change_watched(here: Here, body: ChangeRecurringBody) -> ActionResult:
    """Change what items ask for, or how often they are looked at."""
    return await Watching(here.jobs).change(body.job, body.items, body.input, body.often)


@router.post("/remove", operation_id="remove_watched", dependencies=[OPERATES], responses=documented(404, 409))
async def remove_watched(here: Here, body: RemoveBody) -> ActionResult:
    """Watch items no more. Their records stay. Added again, they are there with all that is known of them."""
    return await Watching(here.jobs).remove(body.job, body.items)


@router.post("/restart", operation_id="restart_watched", dependencies=[OPERATES], responses=documented(404, 409))
async def restart_watched(here: Here, body: RestartBody) -> ActionResult:
    """Look at items again, now: those named, or all that have failed, never more than expected."""
    return await Watching(here.jobs).restart(body.spider, body.job, body.items, body.expect)
