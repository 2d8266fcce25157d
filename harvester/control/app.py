"""The controller: one app for the REST API and, where NiceGUI is mounted on it, for the page.

What goes over HTTP is what the services return, one set of types for program, page, API and client: frozen dataclasses,
and the documents of the ledger, which are Structs of msgspec that pydantic can write since they are `OnTheWire`. No
named tuples: in JSON they would be arrays. A client reads an answer into the same types by `harvester.wire.reader`.

A route is an APIRouter's, with `operation_id`, `dependencies=[READS | OPERATES | ADMINISTERS]`, the errors beyond the
usual ones as `responses=documented(404, 409)`, and `here: Here` for what it asks.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.routing import BaseRoute
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from harvester import __version__
from harvester.config import Config
from harvester.control import problems
from harvester.control.audit import Audit
from harvester.control.auth import API, Gate
from harvester.control.batches import Batches
from harvester.control.context import ControllerContext
from harvester.control.etags import ETags
from harvester.control.events import JobEvents
from harvester.control.idempotency import IdempotencyKeys
from harvester.control.limits import Hosts, proxies_of
from harvester.control.parameters import check_parameters
from harvester.control.problems import USUAL, ProblemDetails
from harvester.control.routes import (
    audit,
    dead_letters,
    deliveries,
    events,
    exports,
    health,
    items,
    job_actions,
    jobs,
    records,
    recurring,
    rows,
    runs,
    schedules,
    settings,
    sites,
    spiders,
    submitting,
    webhooks,
)
from harvester.control.routes.metrics import router as metrics_router
from harvester.control.tokens import Tokens
from harvester.control.uploads import Uploads
from harvester.control.webhook_sender import sending
from harvester.jobs.service import JobService, job_service
from harvester.stores.private_files import is_closed, make_closed, open_closed

PREFIX = f"{API}v1"
ROUTERS: Sequence[APIRouter] = (
    *(submitting.router, job_actions.router, items.router, exports.router, jobs.router),
    *(events.router, spiders.router, audit.router),
    *(rows.router, webhooks.router),
    *(sites.router, runs.router, records.router, schedules.router, recurring.router),
    *(dead_letters.router, deliveries.router, settings.router),
)
"""The routers of the API, one for each kind of resource."""
COOKIE_KEY = "cookie-key"
"""Name of a file in the state folder. Without this file the pages ask for the token again."""


def create_app(config: Config, *, hosts: Sequence[str] = ()) -> FastAPI:
    """Returns an app that connects to MongoDB when it starts, and starts the private MongoDB when none is configured.

    `hosts`: names that requests may use for the controller, besides the loopback names and HARVESTER_CONTROL_HOSTS.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with job_service(config) as service:
            context = await _context(config, service)
            app.state.context = context
            work = asyncio.create_task(context.batches.run())
            try:
                async with sending(service):
                    yield
            finally:
                await context.events.close()
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                del app.state.context

    app = FastAPI(
        title="harvester",
        version=__version__,
        lifespan=lifespan,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its page would load scripts of other servers
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.parameters = {}
    problems.handle(app)
    app.include_router(health.router)
    app.include_router(metrics_router, responses=USUAL)
    app.router.routes.extend(_api_routes())
    app.add_middleware(ETags)
    app.add_middleware(Gate, hosts=Hosts([*config.control_hosts.split(","), *hosts]))
    app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=proxies_of(config.control_proxies))
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


@cache
def _api_routes() -> list[BaseRoute]:
    """Returns the routes of the API. FastAPI takes half a second to prepare them, and all apps can share them."""
    api = APIRouter()
    for router in ROUTERS:
        api.include_router(router, prefix=PREFIX, responses=USUAL, dependencies=[Depends(check_parameters)])
    return api.routes


async def _context(config: Config, service: JobService) -> ControllerContext:
    database = service.database
    context = ControllerContext(
        config=config,
        database=database,
        jobs=service,
        tokens=Tokens(database),
        audit=Audit(database),
        keys=IdempotencyKeys(database),
        batches=Batches(database, service),
        events=JobEvents(service),
        uploads=Uploads(config.data_dir / "uploads", config.control_upload_mb << 20),
        cookie_key=_cookie_key(config),
    )
    for each in (context.audit, context.keys, context.batches):
        await each.make_indexes()
    return context


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Returns the OpenAPI document with the schema of problem details, which FastAPI would describe as plain JSON."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=__doc__, routes=app.routes)
        described = TypeAdapter(ProblemDetails).json_schema(ref_template="#/components/schemas/{model}")
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(described.pop("$defs", {}) | {"ProblemDetails": described})
        app.openapi_schema = document
    return app.openapi_schema


def _cookie_key(config: Config) -> bytes:
    """Returns the key that signs this controller's cookies. A file saves it for the next start."""
    path = config.state_dir / COOKIE_KEY
    make_closed(path.parent)
    if not path.exists() or not is_closed(path) or path.stat().st_size < 32:
        beside = path.with_name(f"{COOKIE_KEY}.{secrets.token_hex(4)}")
        with open(open_closed(beside, 2), "wb") as file:
            file.write(secrets.token_bytes(32))
        beside.replace(path)
    return path.read_bytes()
