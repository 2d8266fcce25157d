"""`harvester up` in a process of its own, a Chromium beside it, and what pages are asked by tests."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright
from pydantic import SecretStr

from harvester.browser.chromium import find_chromium, launch_options
from harvester.config import Config
from harvester.jobs.documents import ItemState, Job
from harvester.jobs.inputs import Input
from harvester.jobs.service import JobService, job_service
from harvester.jobs.submission import Submission
from tests.forking import Begun, begin
from tests.root import ROOT

HARVESTER = str(Path(sys.executable).with_name("harvester"))
END_S = 60


class ControlRoom:
    """`with ControlRoom(folder, variables) as room`: it has said where it is, and ends with the block."""

    def __init__(self, folder: Path, variables: Mapping[str, str], *words: str, forked: bool = True) -> None:
        """`forked`: from the process of tests/forking.py; else it starts from nothing."""
        self.folder = folder
        self.variables = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        self._words = ("up", "--port", "0", *(words or ("--no-workers",)))
        self._forked = forked
        self._process: subprocess.Popen[bytes] | Begun | None = None
        self.said: list[str] = []
        """All lines but the last, which has no other use."""

    def __enter__(self) -> Self:
        reading, writing = os.pipe()
        self._out = os.fdopen(reading)
        if self._forked:
            self._process = begin(
                HARVESTER, *self._words, cwd=self.folder, env=self.variables, files=[None, writing, 2]
            )
        else:
            command = [HARVESTER, *self._words]
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=self.variables, stdout=writing, start_new_session=True
            )
        os.close(writing)
        for line in self._out:
            self.said.append(line.rstrip())
            if "Ctrl-C ends" in line:
                return self
        raise AssertionError(f"It ended with {self._process.wait()}: {self.said}")

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGTERM)

    def end(self, number: signal.Signals) -> int:
        """Sends a signal, and waits; the exit code."""
        assert self._process
        if self._process.poll() is None:
            self._process.send_signal(number)
        code = self._process.wait(END_S)
        self._out.close()
        return code

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def url(self) -> str:
        return self._found(r"The control room: (\S+)")

    @property
    def link(self) -> str:
        return self._found(r"within ten minutes: (\S+)")

    @property
    def token(self) -> str:
        return (self.folder / ".harvester" / "token").read_text().strip()

    def _found(self, pattern: str) -> str:
        found = re.search(pattern, "\n".join(self.said))
        assert found
        return found[1]


class Seen:
    """A browser that is logged in: a page, what it asked for, and what its console said."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.asked: list[str] = []
        self.faults: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.faults.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    async def go(self, path: str) -> Page:
        """Opens a page, and waits until it is live."""
        await self.page.goto(f"{self.url}{path}")
        await self.page.wait_for_function("window.did_handshake")
        return self.page


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options(find_chromium(Config())))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def person(browser: Browser, url: str, **options: Any) -> AsyncIterator[Seen]:
    """In a context of its own."""
    context: BrowserContext = await browser.new_context(**options)
    try:
        yield Seen(await context.new_page(), url)
    finally:
        await context.close()


@asynccontextmanager
async def logged_in(browser: Browser, url: str, token: str, **options: Any) -> AsyncIterator[Seen]:
    """A person who has typed a token."""
    async with person(browser, url, **options) as seen:
        await seen.page.goto(f"{url}/login")
        await seen.page.get_by_label("Token").fill(token)
        await seen.page.get_by_role("button", name="Log in").click()
        await seen.page.wait_for_url(f"{url}/")
        yield seen


@asynccontextmanager
async def service_of(room: ControlRoom) -> AsyncIterator[JobService]:
    """The same jobs, for tests."""
    names = ("MONGODB_URI", "REDIS_URL", "DATABASE")
    uri, redis, database = (room.variables[f"HARVESTER_{name}"] for name in names)
    config = Config(
        mongodb_uri=SecretStr(uri),
        redis_url=SecretStr(redis),
        database=database,
        state_dir=room.folder / ".harvester",
        data_dir=room.folder / "data",
    )
    async with job_service(config) as service:
        yield service


async def seed(
    service: JobService, folder: Path, keys: Sequence[str], failed: Mapping[str, Sequence[str]] = {}, **wanted: Any
) -> Job:
    """A job of `parcels` whose items wait, but for those that failed: outcome -> their keys."""
    path = folder / "seed.txt"
    path.write_text("\n".join(keys), "utf-8")
    submitted = await service.submit(Submission("parcels", {}, **wanted), Input(str(path)))
    assert submitted.job
    for outcome, of_it in failed.items():
        attempt = {"attempt": 1, "at": service.ledger.now(), "state": "failed", "outcome": outcome, "requests": 2}
        attempt |= {"reason": f"it said {outcome}", "records": 0}
        ended = {"state": ItemState.FAILED, "outcome": outcome, "reason": f"it said {outcome}", "attempts": 1}
        await service.ledger.items.update_many(
            {"job": submitted.job, "key": {"$in": list(of_it)}}, {"$set": ended | {"history": [attempt]}}
        )
    await service.ledger.counting.count(submitted.job)
    return await service.job(submitted.job)
