"""The health of the controller, for programs that start processes. These routes need no token."""

from typing import Literal

import pymongo
from fastapi import APIRouter
from pydantic.dataclasses import dataclass

from harvester.control.context import Here
from harvester.control.problems import documented

PING_S = 2.0
"""Seconds that MongoDB may take to answer."""

router = APIRouter(tags=["health"])


@dataclass(frozen=True)
class ControllerHealth:
    """The controller is well."""

    status: Literal["ok"]


@router.get("/healthz", operation_id="health")
async def health() -> ControllerHealth:
    """The process answers."""
    return ControllerHealth("ok")


@router.get("/readyz", operation_id="readiness", responses=documented(503))
async def readiness(here: Here) -> ControllerHealth:
    """It has begun, and MongoDB answers it."""
    with pymongo.timeout(PING_S):
        await here.database.command("ping")
    return ControllerHealth("ok")
