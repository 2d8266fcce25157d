"""Mounts the pages on the controller's app."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from nicegui import core, ui
from pymongo.errors import PyMongoError
from starlette.middleware.gzip import GZipMiddleware

from harvester.control.pages import (
    dead_letters,
    items,
    job,
    jobs,
    overview,
    records,
    recurring,
    runs,
    schedules,
    settings,
    sites,
    submit,
    workers,
)
from harvester.control.pages.components import Tag
from harvester.control.pages.frame import frame
from harvester.control.pages.guard import ContentSecurityPolicy, Guard
from harvester.control.pages.login import Links, add_login
from harvester.control.pages.page_context import PageContext
from harvester.exceptions import HarvesterError, UnknownJob, UnknownRecord, UnknownRun
from harvester.jobs.listing import ItemFilter
from harvester.masking import mask
from harvester.shutdown import stop
from harvester.stores import mongodb

STATIC = Path(__file__).parent / "static"
HEAD = '<link rel="stylesheet" href="/static/page.css"><script defer src="/static/page.js"></script>'
ANSWER_S = 30.0
"""Seconds until building a page is given up."""
UNKNOWN = (UnknownJob, UnknownRecord, UnknownRun)
RECONNECT_S = 20.0
"""Seconds to keep the elements of a page when its browser lost the connection."""


def mount(app: FastAPI) -> Links:
    """Mounts the pages; once per process, because NiceGUI has a single app. Returns the login links."""
    room, links = PageContext(app), Links()
    add_login(app, room, links)
    records.add_files(core.app, room)
    _add_views(room)
    ui.add_head_html(HEAD, shared=True)
    core.app.add_static_files("/static", STATIC)
    ui.run_with(
        app,
        root=lambda: _nothing(room),
        title="harvester",
        language="en-US",
        dark=None,
        tailwind=False,
        reconnect_timeout=RECONNECT_S,
        message_history_length=200,
        binding_refresh_interval=None,
        show_welcome_message=False,
        gzip_middleware_factory=None,  # it would run before the policy
    )
    core.app.add_middleware(ContentSecurityPolicy)
    core.app.add_middleware(GZipMiddleware)
    core.app.add_middleware(Guard, room=room)
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def with_broadcaster(app: FastAPI) -> AsyncIterator[object]:
        async with lifespan(app) as state:
            room.broadcaster.begin()
            watching = asyncio.create_task(room.watch_tokens())
            try:
                yield state
            finally:
                await stop(watching)
                await room.broadcaster.end()

    app.router.lifespan_context = with_broadcaster  # type: ignore[assignment]
    return links


def _add_views(room: PageContext) -> None:
    @ui.page("/", response_timeout=ANSWER_S)
    async def show_overview() -> None:
        await _shown(room, overview.view(room))

    @ui.page("/jobs", response_timeout=ANSWER_S)
    async def show_jobs(spider: str = "", state: str = "") -> None:
        await _shown(room, jobs.view(room, spider, state))

    @ui.page("/submit", response_timeout=ANSWER_S)
    async def show_submit(spider: str = "") -> None:
        await _shown(room, submit.view(room, spider))

    @ui.page("/jobs/{name}", response_timeout=ANSWER_S)
    async def show_job(
        name: str, state: str = "", outcome: str = "", site: str = "", text: str = "", after: str = ""
    ) -> None:
        await _shown(room, job.view(room, name, ItemFilter(state, outcome, site, text), after))

    @ui.page("/jobs/{name}/items", response_timeout=ANSWER_S)
    async def show_item(name: str, item: str = "") -> None:
        await _shown(room, items.view(room, name, item))

    @ui.page("/sites", response_timeout=ANSWER_S)
    async def show_sites() -> None:
        await _shown(room, sites.view(room))

    @ui.page("/watched", response_timeout=ANSWER_S)
    async def show_watched(spider: str = "", standing: str = "", text: str = "", after: str = "") -> None:
        await _shown(room, recurring.view(room, spider, standing, text, after))

    @ui.page("/schedules", response_timeout=ANSWER_S)
    async def show_schedules() -> None:
        await _shown(room, schedules.view(room))

    @ui.page("/runs", response_timeout=ANSWER_S)
    async def show_runs(spider: str = "", state: str = "") -> None:
        await _shown(room, runs.view(room, spider, state))

    @ui.page("/runs/{name}", response_timeout=ANSWER_S)
    async def show_run(name: str) -> None:
        await _shown(room, runs.view_one(room, name))

    @ui.page("/workers", response_timeout=ANSWER_S)
    async def show_workers() -> None:
        await _shown(room, workers.view(room))

    @ui.page("/records", response_timeout=ANSWER_S)
    async def show_collections() -> None:
        await _shown(room, records.view(room))

    @ui.page("/records/{name}", response_timeout=ANSWER_S)
    async def show_records(name: str, key: str = "", prefix: str = "", after: str = "") -> None:
        await _shown(room, records.view_one(room, name, key) if key else records.view_some(room, name, prefix, after))

    @ui.page("/dead-letters", response_timeout=ANSWER_S)
    async def show_dead_letters(spider: str = "", outcome: str = "", pattern: str = "") -> None:
        await _shown(room, dead_letters.view(room, spider, outcome, pattern))

    @ui.page("/settings", response_timeout=ANSWER_S)
    async def show_settings() -> None:
        await _shown(room, settings.view(room))


async def _shown(room: PageContext, view: Awaitable[None]) -> None:
    """Builds a view, and shows errors on the page in plain words."""
    try:
        await view
    except HarvesterError as error:
        ui.context.client.status_code = 404 if isinstance(error, UNKNOWN) else 409
        _say(room, "There is no such thing" if isinstance(error, UNKNOWN) else "This cannot be shown", str(error))
    except PyMongoError as error:
        ui.context.client.status_code = 503
        _say(room, "This cannot be shown", str(mongodb.unavailable(error)))


def _nothing(room: PageContext) -> None:
    ui.context.client.status_code = 404
    _say(room, "There is no such page", "The line above has all there are.")


def _say(room: PageContext, title: str, said: str) -> None:
    ui.context.client.content.clear()
    with ui.context.client.content, frame(room, title, ""):
        Tag("p", mask(said), role="alert")
