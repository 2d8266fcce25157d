"""The effective settings."""

from fastapi import APIRouter

from harvester.control.auth import ADMINISTERS
from harvester.control.context import Here
from harvester.control.services.settings import Setting, Settings

router = APIRouter(tags=["settings"])


@router.get("/settings", operation_id="list_settings", dependencies=[ADMINISTERS])
async def list_settings(here: Here) -> list[Setting]:
    """Those of the controller, and where each comes from. Secrets are masked."""
    return Settings(here.jobs).all()
