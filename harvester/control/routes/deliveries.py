"""Publishing: the state of each receiver, and resending events that it did not take."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from harvester.control.auth import OPERATES, READS
from harvester.control.context import Here
from harvester.control.problems import documented
from harvester.control.routes.submitting import Strict
from harvester.control.services.action_result import ActionResult
from harvester.control.services.deliveries import Deliveries, DeliveryStatus

router = APIRouter(prefix="/deliveries", tags=["deliveries"])

Sink = Annotated[str, Path(max_length=200, description="Name of the receiver.")]


class ReplayBody(Strict):
    """How many are meant."""

    expect: int = Field(ge=0, le=1_000_000)
    """How many are dead, as was shown: refused when there are more."""


@router.get("", operation_id="show_deliveries", dependencies=[READS])
async def show_deliveries(here: Here) -> DeliveryStatus:
    """Each receiver: whether it takes events, how many wait, and why it fails."""
    return await Deliveries(here.jobs).status()


@router.post("/{sink}/resume", operation_id="resume_deliveries", dependencies=[OPERATES], responses=documented(404))
async def resume_deliveries(here: Here, sink: Sink) -> ActionResult:
    """Try a receiver again at once that fails, or was set aside."""
    return await Deliveries(here.jobs).resume(sink)


@router.post(
    "/{sink}/replay", operation_id="replay_deliveries", dependencies=[OPERATES], responses=documented(404, 409)
)
async def replay_deliveries(here: Here, sink: Sink, body: ReplayBody) -> ActionResult:
    """Send events again that are not tried any more; never more than expected."""
    return await Deliveries(here.jobs).replay_dead(sink, body.expect)
