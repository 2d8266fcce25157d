"""The audit, for administrators."""

from dataclasses import dataclass

from bson import ObjectId
from bson.errors import InvalidId
from fastapi import APIRouter

from harvester.control.audit import AuditLine
from harvester.control.auth import ADMINISTERS
from harvester.control.context import Here
from harvester.control.cursors import After, Limit, cursor_of, place_of
from harvester.control.problems import ApiProblem

router = APIRouter(prefix="/audit", tags=["audit"])


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some lines, the latest first."""

    lines: list[AuditLine]
    next: str | None
    """Cursor of the next page. None: the last page."""


@router.get("", operation_id="list_audit", dependencies=[ADMINISTERS])
async def list_audit(here: Here, limit: Limit = 100, after: After = "") -> AuditPage:
    """Each action: who, what, when, from where, and how it was answered."""
    place = str(place_of(after, str)) if after else ""
    try:
        found = await here.audit.latest(limit + 1, str(ObjectId(place)) if place else "")
    except InvalidId:
        raise ApiProblem(400, "bad_request", "`after` is no cursor: give `next` of the page before.") from None
    shown = found[:limit]
    return AuditPage(shown, cursor_of(shown[-1].id) if len(found) > limit else None)
