"""Dead letters, and requeueing them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from harvester.control.auth import OPERATES, READS
from harvester.control.context import Here
from harvester.control.problems import documented
from harvester.control.routes.submitting import Name, Strict, Word
from harvester.control.services.action_result import ActionResult
from harvester.control.services.dead_letters import (
    MOST_IDS,
    MOST_LETTERS,
    DeadLetters,
    Groups,
    Letter,
    RequeueSelection,
)

router = APIRouter(prefix="/dead-letters", tags=["dead letters"])

Spider = Annotated[str, Path(max_length=200)]


class RequeueBody(Strict):
    """Which are tried again: those with these ids, or a group, or all with an outcome."""

    ids: list[Name] = Field([], max_length=MOST_IDS)
    outcome: Word = ""
    pattern: str = Field("", max_length=5000)
    """Of the group. Empty: all with the outcome."""
    expect: int | None = Field(None, ge=0, le=1_000_000)
    """How many they were, as was shown: refused when there are more. Needed without ids."""


@router.get("", operation_id="group_dead_letters", dependencies=[READS], responses=documented(404))
async def group_dead_letters(
    here: Here, spider: Annotated[str, Query(max_length=200, description="Only those of this spider.")] = ""
) -> Groups:
    """By outcome and by what their reasons have in common, the largest groups first."""
    return await DeadLetters(here.jobs).groups(spider)


@router.get("/{spider}", operation_id="list_dead_letters", dependencies=[READS], responses=documented(404))
async def list_dead_letters(
    here: Here,
    spider: Spider,
    outcome: Annotated[str, Query(max_length=200)] = "",
    pattern: Annotated[str | None, Query(max_length=5000, description="Of a group.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LETTERS, description="The most that are listed.")] = 100,
) -> list[Letter]:
    """The latest first, with what happened to each."""
    return await DeadLetters(here.jobs).letters(spider, outcome, pattern, limit)


@router.post(
    "/{spider}/requeue", operation_id="requeue_dead_letters", dependencies=[OPERATES], responses=documented(404, 409)
)
async def requeue_dead_letters(here: Here, spider: Spider, body: RequeueBody) -> ActionResult:
    """Have requests tried again that were given up, with all their attempts; never more than expected."""
    return await DeadLetters(here.jobs).requeue(spider, RequeueSelection(**body.model_dump()))
