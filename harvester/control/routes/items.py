"""The items of a job: by filters, page by page, or one item with its attempts."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from harvester.control.auth import READS
from harvester.control.context import Here
from harvester.control.cursors import After, Limit, cursor_of, place_of
from harvester.control.problems import documented
from harvester.control.routes.jobs import JobId
from harvester.jobs.documents import ItemState
from harvester.jobs.listing import ItemFilter, ItemReport

router = APIRouter(prefix="/jobs/{job}", tags=["jobs"])

Word = Annotated[str, Query(max_length=500)]


@dataclass(frozen=True, slots=True)
class ItemPageBody:
    """Some items, in the order of their ids."""

    items: list[ItemReport]
    next: str | None
    """Cursor of the next page. None: the last page."""


@router.get("/items", operation_id="list_items", dependencies=[READS], responses=documented(404))
async def list_items(
    here: Here,
    job: JobId,
    state: Annotated[list[ItemState], Query(description="In one of these states.")] = [],  # noqa: B006
    outcome: Annotated[
        list[Annotated[str, Query(max_length=100)]], Query(description="Whose latest attempt had one of these.")
    ] = [],  # noqa: B006
    site: Word = "",
    kind: Word = "",
    text: Annotated[str, Query(max_length=500, description="In the key or the reason.")] = "",
    results: Annotated[bool, Query(description="Whether to say where records and files lie.")] = False,
    limit: Limit = 100,
    after: After = "",
) -> ItemPageBody:
    """In the order of their ids, each with its attempts.

    A page may hold fewer than the limit, or none, though `next` is there: it ends when many items were looked at for a
    state, site, kind or text.
    """
    which = ItemFilter(",".join(sorted(state)), ",".join(sorted(outcome)), site, text, kind)
    place = place_of(after, str, job, which) if after else ""
    page = await here.jobs.items_page(job, which, limit, str(place), with_results=results)
    return ItemPageBody(page.items, cursor_of(page.end, job, which) if page.end else None)


@router.get("/item", operation_id="show_item", dependencies=[READS], responses=documented(404))
async def show_item(
    here: Here, job: JobId, name: Annotated[str, Query(min_length=1, max_length=4000, description="Its id or key.")]
) -> ItemReport:
    """One item, with its attempts, and where its records and files lie."""
    return await here.jobs.item(job, name)
