"""The metrics for Prometheus. They need a token, because jobs, sites and queues are confidential."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from harvester.control.auth import METRICS, READS
from harvester.control.context import Here
from harvester.control.metrics import exposition

router = APIRouter(tags=["health"])


@router.get(
    METRICS,
    operation_id="metrics",
    dependencies=[READS],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(here: Here, accept: Annotated[str, Header()] = "") -> Response:
    """What both stores say now, as Prometheus reads it."""
    text, content_type = await exposition(here.config, here.database, accept)
    return Response(text, headers={"content-type": content_type})
