"""The command `harvester spiders new`: writes a first version of a spider, which runs at once."""

import keyword
import os
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from scrapy.utils.conf import closest_scrapy_cfg

from harvester.cli import spider_template
from harvester.cli.one_page import check_address, fetch, write
from harvester.cli.spider_template import StartPage
from harvester.exceptions import UsageError

NEW_PACKAGE = "sites"
"""Name of the package for spiders outside a project."""
_is_name = re.compile(r"[a-z][a-z0-9_]{0,49}").fullmatch


def write_spider(name: str, url: str) -> None:
    """Writes a spider for the page at `url`. Raises UsageError, ServiceError, StorageError."""
    if not _is_name(name) or keyword.iskeyword(name):
        raise UsageError(f"new: {name!r} is no name of a spider: use small letters, digits and _.")
    check_address(url)
    project = _project()
    _refuse_existing(project, name)
    answer = fetch(url)
    kind = (answer.headers.get("Content-Type") or b"").decode("latin-1")
    page = StartPage(url, answer.body, "json" in kind, getattr(answer, "encoding", "utf-8"))
    files = {**project.missing, **spider_template.spider(name, page, project.package, date.today())}
    for path, content in files.items():
        write(project.root / path, content)
    print(f"\nTo run it: harvester crawl {name}\nTo test its parser: python -m pytest tests/test_{name}.py")


class _Project(NamedTuple):
    root: Path
    package: str
    """The package that contains the packages `spiders` and `parsers`."""
    missing: Mapping[str, bytes]
    """Files that a spider needs and the project lacks: path below `root` -> content."""


def _project() -> _Project:
    """Returns the current folder's project, or a new one. Raises UsageError for an unsupported NEWSPIDER_MODULE."""
    found = closest_scrapy_cfg()
    if not found:
        return _Project(Path(), NEW_PACKAGE, spider_template.project(NEW_PACKAGE) | _missing(Path(), NEW_PACKAGE))
    from harvester.project import project_settings

    root = Path(os.path.relpath(Path(found).parent))
    module = project_settings()["NEWSPIDER_MODULE"] or ""
    package, _, last = module.rpartition(".")
    if last != "spiders" or not (root / package.replace(".", "/")).is_dir():
        raise UsageError(f"new: NEWSPIDER_MODULE is {module!r}; it must name a package `spiders` in one of {found}.")
    return _Project(root, package, _missing(root, package))


def _missing(root: Path, package: str) -> dict[str, bytes]:
    """Returns the missing packages. `tests` is a package too, so that tests can import the project."""
    below = package.replace(".", "/")
    paths = [f"{below}/spiders/__init__.py", f"{below}/parsers/__init__.py", "tests/__init__.py"]
    return {path: b"" for path in paths if not (root / path).exists()}


def _refuse_existing(project: _Project, name: str) -> None:
    paths = {path for suffix in ("html", "json") for path in spider_template.paths(name, project.package, suffix)}
    for path in sorted(paths | project.missing.keys()):
        if (project.root / path).exists():
            raise UsageError(f"new: {project.root / path} is there already; nothing was written.")
