"""Runs spiders of a project, each in a copy of the project, against its stand-in."""

import asyncio
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.projects.names import Names
from tests.projects.stand_in import Book, StandIn

LONGEST_S = 120
"""A run that takes longer is ended."""
KILLED = "not ended"
ITEMS = "items-of-run.jl"
ADD_ON = '\nADDONS = {**globals().get("ADDONS", {}), "harvester.Addon": 500}\n'
"""The one line by which the sides differ."""
SAME_FOR_BOTH = {
    "AUTOTHROTTLE_ENABLED": "False",
    "DOWNLOAD_DELAY": "0",
    "SPIDER_LOADER_WARN_ONLY": "True",
    "LOG_LEVEL": "DEBUG",
    "RETRY_TIMES": "1",
}
"""Settings of both sides: a stand-in needs no manners."""
_SHIM = Path(__file__).parent / "shim"
_FORKS = Path(__file__).parent / "forks.py"
_LEFT_OUT = shutil.ignore_patterns(".git", "tests", "docs", "node_modules", ".venv", "*.egg-info")
_IS_NO_RESULT = re.compile(rf"(^|/)(__pycache__|\.scrapy|\.harvester|{ITEMS})(/|$)").search
_digits = re.compile(r"\d+")
_errors = re.compile(r"'log_count/(?:ERROR|CRITICAL)': (\d+)").findall


@dataclass
class Ran:
    """What a run came to."""

    exit_code: str
    seconds: float
    items: list[Any] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """Files it made, digits in their names aside -> hash of what is in them."""
    requests: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    """Requests that had no page."""
    errors: int = 0
    """Lines of its log of level ERROR, by Scrapy's own count."""

    stored: int | None = None
    """Items that MongoDB holds, of a run under harvester."""

    has_feed: bool = True
    """Whether its items were written, of which `items` and `stored` speak."""

    @property
    def has_failed(self) -> bool:
        """Whether it gave nothing, or something of it failed: plain Scrapy ends with 0 all the same."""
        return not (self.items or self.files) or bool(self.errors)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> "Ran":
        return cls(**json.loads(path.read_text()))


@dataclass(frozen=True)
class Project:
    """A Scrapy project in a folder of the user's."""

    name: str
    folder: Path
    """Where its scrapy.cfg is."""

    def copy(self, to: Path, line: str = "") -> "Project":
        """A copy, with the line at the end of its settings."""
        shutil.copytree(self.folder, to, ignore=_LEFT_OUT, symlinks=True)
        if line:
            file = to / self._settings()
            file.write_text(file.read_text() + line)
        return Project(self.name, to)

    def _settings(self) -> Path:
        """The file that its scrapy.cfg names as default."""
        found = re.search(r"^\s*default\s*=\s*([\w.]+)\s*$", (self.folder / "scrapy.cfg").read_text(), re.MULTILINE)
        assert found
        path = Path(found[1].replace(".", "/"))
        file = path.with_suffix(".py")
        return file if (self.folder / file).exists() else path / "__init__.py"


class Forks:
    """A process that runs `scrapy crawl` for a project, one run after the other."""

    def __init__(self, project: Project, names: Names, python: str) -> None:
        self.project, self._names, self._python = project, names, python
        self.spiders: dict[str, str] = {}
        """Name -> module."""

    async def __aenter__(self) -> Self:
        log = self.project.folder.with_name(f"{self.project.folder.name}.log")
        with log.open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(self._python, "-P", str(_FORKS)),
                cwd=self.project.folder,
                env=self._environment({}),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=1 << 24,
            )
        self.spiders = json.loads(await self._line() or "{}")
        if not self.spiders:
            print(f"{self.project.name}: it has no spiders that can be imported:\n{log.read_text()}", file=sys.stderr)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def run(
        self,
        spider: str,
        arguments: list[str],
        book: Book,
        folder: Path,
        environment: dict[str, str] | None = None,
        *,
        has_feed: bool = True,
    ) -> Ran:
        """One run, with its log and its result in the folder."""
        copy = self.project.copy(folder / "copy").folder
        before = _files(copy)
        given = [word for name, value in SAME_FOR_BOTH.items() for word in ("-s", f"{name}={value}")]
        words = ["crawl", spider, *given, *arguments, *(("-O", f"{ITEMS}:jsonlines") if has_feed else ())]
        async with StandIn(book, self._names) as stand_in:
            ports = dict(zip(("STAND_IN_HTTP", "STAND_IN_HTTPS"), map(str, stand_in.ports), strict=True))
            wanted = {"folder": str(copy), "log": str(folder / "log"), "arguments": words}
            begun = time.monotonic()
            exit_code = await self._forked(wanted | {"environment": self._environment(ports | (environment or {}))})
            ran = Ran(exit_code, round(time.monotonic() - begun, 1))
        ran.has_feed = has_feed
        ran.items = _items(copy / ITEMS)
        ran.files = _made(copy, before)
        ran.requests = dict(stand_in.requests)
        ran.failed = sorted(stand_in.failed)
        ran.errors = sum(map(int, _errors((folder / "log").read_text(errors="replace"))))
        shutil.rmtree(copy)
        ran.write(folder / "ran.json")
        return ran

    async def _forked(self, wanted: dict[str, Any]) -> str:
        """Its exit code."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
        process = int(await self._line())
        ended = asyncio.ensure_future(self._line())
        try:
            return str(await asyncio.wait_for(asyncio.shield(ended), LONGEST_S))
        except TimeoutError:
            return KILLED
        finally:
            if not ended.done():
                os.killpg(process, signal.SIGKILL)
                await ended

    async def _line(self) -> str:
        assert self._process.stdout
        return (await self._process.stdout.readline()).decode().strip()

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        """As the user's, but led to the stand-in, with no settings of harvester that are not given here."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
        mine.pop("SCRAPY_SETTINGS_MODULE", None)
        trusted = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), str(self._names.authority))
        nowhere = {"STAND_IN_HTTP": "9", "STAND_IN_HTTPS": "9"}
        return {**mine, **trusted, "PYTHONPATH": str(_SHIM), "PYTHONHASHSEED": "0", **nowhere, **more}


def _items(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _files(folder: Path) -> set[str]:
    return {
        name
        for path in folder.rglob("*")
        if path.is_file() and not _IS_NO_RESULT(name := path.relative_to(folder).as_posix())
    }


def _made(folder: Path, before: set[str]) -> dict[str, str]:
    number: Counter[str] = Counter()
    made: dict[str, str] = {}
    for name in sorted(_files(folder) - before):
        plain = _digits.sub("#", name)
        number[plain] += 1
        made[f"{plain} {number[plain]}"] = hashlib.sha1((folder / name).read_bytes()).hexdigest()
    return made
