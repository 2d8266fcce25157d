"""The command `harvester spiders new`: writes the beginning of a spider, each part of which runs at once."""

import keyword
import os
import re
from collections.abc import AsyncIterator, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.conf import closest_scrapy_cfg
from twisted.python.failure import Failure

from harvester.cli import beginning
from harvester.cli.beginning import Page
from harvester.exceptions import ServiceError, StorageError, UsageError

NEW_PACKAGE = "sites"
"""The package that is made where there is no project."""
_is_name = re.compile(r"[a-z][a-z0-9_]{0,49}").fullmatch


def new_command(
    name: Annotated[str, typer.Argument(help="Of the spider: small letters, digits and _.")],
    url: Annotated[str, typer.Argument(help="A page of the site, HTML or JSON.")],
) -> None:
    """Write the beginning of a spider: spider, parser, the page as it is now, and a test."""
    if not _is_name(name) or keyword.iskeyword(name):
        raise UsageError(f"new: {name!r} is no name of a spider: use small letters, digits and _.")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"new: {url!r} is no address: give it whole, like https://example.com/page.")
    project = _project()
    _refuse_existing(project, name)
    files = {**project.missing, **beginning.spider(name, fetch(url), project.package, date.today())}
    for path, content in files.items():
        _write(project.root / path, content)
        print(project.root / path)
    print(f"\nTo run it: scrapy crawl {name}\nTo test its parser: python -m pytest tests/test_{name}.py")


class _Project(NamedTuple):
    root: Path
    package: str
    """In which the packages `spiders` and `parsers` are."""
    missing: Mapping[str, bytes]
    """Path below `root` -> content, of what a spider needs and is not there yet."""


def _project() -> _Project:
    """That of the current folder, or a new one. Raises UsageError when it keeps its spiders as none is kept here."""
    found = closest_scrapy_cfg()
    if not found:
        return _Project(Path(), NEW_PACKAGE, beginning.project(NEW_PACKAGE) | _missing(Path(), NEW_PACKAGE))
    from harvester.spiders.known import project_settings

    root = Path(os.path.relpath(Path(found).parent))
    module = project_settings()["NEWSPIDER_MODULE"] or ""
    package, _, last = module.rpartition(".")
    if last != "spiders" or not (root / package.replace(".", "/")).is_dir():
        raise UsageError(f"new: NEWSPIDER_MODULE is {module!r}; it must name a package `spiders` in one of {found}.")
    return _Project(root, package, _missing(root, package))


def _missing(root: Path, package: str) -> dict[str, bytes]:
    """Packages that are not there. `tests` is one, so that tests can import the project."""
    below = package.replace(".", "/")
    paths = [f"{below}/spiders/__init__.py", f"{below}/parsers/__init__.py", "tests/__init__.py"]
    return {path: b"" for path in paths if not (root / path).exists()}


def _refuse_existing(project: _Project, name: str) -> None:
    paths = {path for suffix in ("html", "json") for path in beginning.paths(name, project.package, suffix)}
    for path in sorted(paths | project.missing.keys()):
        if (project.root / path).exists():
            raise UsageError(f"new: {project.root / path} is there already; nothing was written.")


def fetch(url: str) -> Page:
    """Asks for it once, as a crawl does: robots.txt is obeyed. Raises ServiceError when it does not come."""
    from scrapy.crawler import AsyncCrawlerProcess

    from harvester.spiders.known import project_settings

    settings = project_settings()
    alone: dict[str, Any] = {
        "SCHEDULER": "scrapy.core.scheduler.Scheduler",  # the frontier is for crawls
        "ITEM_PIPELINES": {},
        "SPIDER_MIDDLEWARES": {},
        "EXTENSIONS": {},
        "LOG_LEVEL": "ERROR",
    }
    settings.setdict(alone, "cmdline")
    process = AsyncCrawlerProcess(settings)
    came: list[Response | Failure] = []
    process.crawl(_OnePage, url=url, came=came)
    process.start()
    answer = came[0] if came else None
    if not isinstance(answer, Response):
        raise ServiceError(f"new: {url} does not come: {answer.value if answer else 'see above'}")
    kind = (answer.headers.get("Content-Type") or b"").decode("latin-1")
    return Page(url, answer.body, "json" in kind, getattr(answer, "encoding", "utf-8"))


class _OnePage(Spider):
    name = "one_page"
    url: str
    came: list[Response | Failure]

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url, self.came.append, errback=self.came.append)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise StorageError(f"new: {path} cannot be written: {error.strerror or error}.") from None
