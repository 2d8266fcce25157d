"""`make projects FOLDER=FOLDER`: public Scrapy projects under plain Scrapy and under harvester.

FOLDER holds projects, or is one, as they were fetched: each folder with a scrapy.cfg. Every spider runs on both sides
against a stand-in that answers for all sites with the pages which the project saved for its tests. Prints each spider
whose items, files, requests or exit code differ, and a table.
"""

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.projects.compare import FAILURE_TOLD, differences
from tests.projects.names import Names
from tests.projects.pages import Saved, saved_pages
from tests.projects.run import ADD_ON, KILLED, LONGEST_S, Forks, Project, Ran
from tests.projects.servers import Servers
from tests.projects.stand_in import Book

_HERE = Path(__file__).parent
PLACES = 2
"""Spiders that run at the same time."""


@dataclass
class Compared:
    """A spider on both sides."""

    project: str
    spider: str
    has_pages: bool
    plain: Ran
    ours: Ran
    different: dict[str, str] = field(default_factory=dict)
    is_told: bool = False
    """Whether the exit code tells of a failure over which plain Scrapy ends with 0."""
    reason: str = ""
    """Why it differs, of one that is known to."""


class Comparison:
    """What all spiders of a call share."""

    def __init__(self, folder: Path, options: argparse.Namespace, servers: Servers, names: Names) -> None:
        self._folder = folder
        self._options = options
        self._servers = servers
        self._names = names
        self._known: dict[str, Any] = tomllib.loads((_HERE / "known.toml").read_text())

    async def project(self, project: Project) -> list[Compared]:
        """Compares its spiders."""
        known = self._known.get(project.name, {})
        sides = [self._copy(project, side, known) for side in ("plain", "ours")]
        async with AsyncExitStack() as stack:
            free: asyncio.Queue[tuple[Forks, ...]] = asyncio.Queue()
            for _ in range(self._options.at_once):
                forks = [Forks(side, self._names, self._options.python) for side in sides]
                free.put_nowait(tuple([await stack.enter_async_context(each) for each in forks]))
                spiders = forks[0].spiders
            for name, reason in known.get("left_out", {}).items():
                print(f"{project.name}/{name}: left out: {reason}")
                spiders.pop(name, None)
            if self._options.spiders:
                spiders = {name: module for name, module in spiders.items() if name in self._options.spiders}
            names = sorted(spiders)[: self._options.most]
            pages = saved_pages(project.folder, spiders)
            return await asyncio.gather(*(self._spider(name, pages[name], known, free) for name in names))

    def _copy(self, project: Project, side: str, known: dict[str, Any]) -> Project:
        """What the copies of each run are made of."""
        to = self._folder / project.name / f"project-{side}"
        if to.exists():
            shutil.rmtree(to)
        copy = project.copy(to, self._options.line if side == "ours" else "")
        for name in known.get("removed", {}):
            (to / name).unlink()
        return copy

    async def _spider(
        self, spider: str, pages: list[Saved], known: dict[str, Any], free: "asyncio.Queue[tuple[Forks, ...]]"
    ) -> Compared:
        sides = await free.get()
        try:
            project = sides[0].project.name
            folder = self._folder / project / spider
            book = Book(pages, makes_up=known.get("makes_up", False))
            arguments, has_feed = known.get("arguments", []), known.get("has_feed", True)

            async def plain(again: str = "") -> Ran:
                to = folder / f"plain{again}"
                if (to / "ran.json").exists():
                    book.given |= json.loads((folder / "book.json").read_text())
                    return Ran.read(to / "ran.json")
                ran = await sides[0].run(spider, arguments, book, _emptied(to), has_feed=has_feed)
                (folder / "book.json").write_text(json.dumps(book.given))
                return ran

            theirs = await plain()
            to = _emptied(folder / "ours")
            async with self._servers.databases(to) as databases:
                ours = await sides[1].run(spider, arguments, book, to, databases.variables, has_feed=has_feed)
                ours.stored = databases.stored(spider)
                ours.write(to / "ran.json")
            different = differences(theirs, ours)
            if different.keys() - {FAILURE_TOLD, "exit code"}:
                different = differences(theirs, ours, await plain("-again"))
            compared = Compared(project, spider, bool(pages), theirs, ours, different)
            compared.is_told = different.pop(FAILURE_TOLD, "") != ""
            compared.reason = _reason(known.get("different", {}), compared)
            _say(compared)
            return compared
        finally:
            free.put_nowait(sides)


def _emptied(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _reason(known: dict[str, Any], compared: Compared) -> str:
    """Of the entry for the spider, or for all (`*`), that names each thing in which it differs."""
    for name in (compared.spider, "*"):
        entry = known.get(name)
        if entry and compared.different.keys() <= set(entry["in"]):
            return str(entry["reason"])
    return ""


def _say(compared: Compared) -> None:
    name = f"{compared.project}/{compared.spider}"
    for what, how in compared.different.items():
        print(f"{name}: {what}: {how}{f' (known: {compared.reason})' if compared.reason else ''}", flush=True)


def _table(compared: list[Compared]) -> None:
    columns: dict[str, Callable[[Compared], int]] = {
        "Spiders": lambda each: 1,
        "That ask for pages": lambda each: bool(each.plain.requests),
        "With saved pages": lambda each: each.has_pages,
        "With items": lambda each: bool(each.plain.items),
        "Items": lambda each: len(each.plain.items),
        "Requests": lambda each: sum(each.plain.requests.values()),
        "Equal": lambda each: not each.different,
        "Of these failed, by exit code": lambda each: each.is_told and not each.different,
        "Known to differ": lambda each: bool(each.reason),
        "Different": lambda each: bool(each.different) and not each.reason,
    }
    print(f"\n| Project | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for project in [*dict.fromkeys(each.project for each in compared), ""]:
        mine = [each for each in compared if project in ("", each.project)]
        numbers = (sum(map(column, mine)) for column in columns.values())
        print(f"| {project or 'all'} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    kinds = Counter(what for each in compared for what in each.different)
    print(f"\nDiffering: {', '.join(f'{what} {number}' for what, number in kinds.most_common()) or 'none'}")


def _projects(folders: list[Path]) -> list[Project]:
    found = []
    for folder in folders:
        depth = ("scrapy.cfg", "*/scrapy.cfg", "*/*/scrapy.cfg", "*/*/*/scrapy.cfg", "*/*/*/*/scrapy.cfg")
        for path in sorted(path for pattern in depth for path in folder.glob(pattern)):
            inside = path.relative_to(folder).parts[:-1]
            found.append(Project(inside[0] if inside else folder.resolve().name, path.parent.resolve()))
    return found


async def _main(options: argparse.Namespace, folder: Path) -> int:
    projects = [each for each in _projects(options.folders) if not options.projects or each.name in options.projects]
    if not projects:
        print("There is no scrapy.cfg in these folders: give the folder of a Scrapy project, or of several.")
        return 2
    compared: list[Compared] = []
    with Servers.started() as servers, TemporaryDirectory(prefix="harvester-names-") as certificates:
        comparison = Comparison(folder, options, servers, Names(Path(certificates)))
        for project in projects:
            compared += await comparison.project(project)
    _table(compared)
    for each in compared:
        sides = [side for side, ran in (("plain", each.plain), ("ours", each.ours)) if ran.exit_code == KILLED]
        if sides:
            print(f"{each.project}/{each.spider}: ended after {LONGEST_S} s: {', '.join(sides)}")
    return int(not compared or any(each.different and not each.reason for each in compared))


def main() -> int:
    """1 when a spider differs that is not known to."""
    parser = argparse.ArgumentParser(prog="python -m tests.projects", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--python", default=sys.executable, help="that has harvester and what the projects require")
    parser.add_argument("--projects", nargs="+", metavar="PROJECT", help="these alone, by the names of their folders")
    parser.add_argument("--spiders", nargs="+", metavar="SPIDER", help="these alone")
    parser.add_argument("--most", type=int, metavar="NUMBER", help="of each project no more spiders than these")
    parser.add_argument("--at-once", type=int, default=PLACES, help="spiders that run at the same time")
    parser.add_argument("--runs", type=Path, help="folder for logs and results; what plain Scrapy gave is used again")
    parser.add_argument("--line", default=ADD_ON, help="what is added to the settings")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the runs and the servers end too
    if options.runs:
        options.runs.mkdir(parents=True, exist_ok=True)
        return asyncio.run(_main(options, options.runs.resolve()))
    with TemporaryDirectory(prefix="harvester-runs-") as folder:
        return asyncio.run(_main(options, Path(folder).resolve()))


if __name__ == "__main__":
    sys.exit(main())
