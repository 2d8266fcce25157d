"""The context that all routes and pages of a controller share."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from pymongo.asynchronous.database import AsyncDatabase
from starlette.requests import HTTPConnection

from harvester.config import Config
from harvester.control.audit import Audit
from harvester.control.batches import Batches
from harvester.control.events import JobEvents
from harvester.control.idempotency import IdempotencyKeys
from harvester.control.problems import RETRY_S, ApiProblem
from harvester.control.tokens import Tokens
from harvester.control.uploads import Uploads
from harvester.jobs.service import JobService


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The parts of a running controller. It exists from the app's start to its end."""

    config: Config
    database: AsyncDatabase[dict[str, Any]]
    jobs: JobService
    tokens: Tokens
    audit: Audit
    keys: IdempotencyKeys
    batches: Batches
    events: JobEvents
    uploads: Uploads
    cookie_key: bytes
    """The key that signs cookies."""


def context_of(connection: HTTPConnection) -> ControllerContext:
    """Returns the context of the app. Raises ApiProblem while the app starts or ends."""
    context = getattr(connection.app.state, "context", None)
    if not isinstance(context, ControllerContext):
        raise ApiProblem(503, "server_away", "The controller begins, or ends.", headers={"Retry-After": str(RETRY_S)})
    return context


Here = Annotated[ControllerContext, Depends(context_of)]
