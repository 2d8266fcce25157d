"""Runs `scrapy` for a project, each time in a fork of a process that has loaded what the project imports.

Run by the project's Python in the project's folder. It prints the spiders with their modules, as JSON; then, for each
line of stdin with a run, the process of the run and its exit code. What is the project's own, or harvester's, each run
loads itself.
"""

import contextlib
import gc
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

_OF_BOTH = (
    "aiohttp", "jinja2", "msgspec", "networkx", "pydantic_settings", "pymongo", "redis.asyncio", "regex", "rich",
    "scrapy.cmdline", "scrapy.commands.crawl", "scrapy.core.downloader.contextfactory", "scrapy.extensions.feedexport",
    "spidermon.contrib.scrapy.extensions", "uvloop",
)  # fmt: skip
"""What plain Scrapy or harvester import."""


def main() -> None:
    """Ends when stdin does."""
    say = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a project prints as it is imported is no answer
    sys.path.insert(0, "")
    known = set(sys.modules)
    for name in _OF_BOTH:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    print(json.dumps(_spiders()), file=say)
    here = Path.cwd()
    loaded = {name: module for name, module in sys.modules.items() if name not in known}
    own = [name for name, each in loaded.items() if name.partition(".")[0] == "harvester" or _is_inside(each, here)]
    for name in own:
        del sys.modules[name]
    sys.path[:] = [path for path in sys.path if Path(path or "x").resolve() != here]
    importlib.invalidate_caches()
    gc.freeze()
    for line in sys.stdin:
        run = json.loads(line)
        if not (process := os.fork()):
            _become(run)
        print(process, file=say)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), file=say)


def _spiders() -> dict[str, str]:
    """Name -> module, of all that can be imported."""
    from scrapy.spiderloader import get_spider_loader
    from scrapy.utils.project import get_project_settings

    settings = get_project_settings()
    settings.set("SPIDER_LOADER_WARN_ONLY", True, "cmdline")
    loader = get_spider_loader(settings)
    return {name: loader.load(name).__module__ for name in loader.list()}


def _is_inside(module: Any, folder: Path) -> bool:
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    return file is not None and folder in Path(file).parents


def _become(run: dict[str, Any]) -> NoReturn:
    """Goes on as if this process had been started for the run."""
    os.setsid()
    os.environ.clear()
    os.environ.update(run["environment"])
    os.chdir(run["folder"])
    log = os.open(run["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, log, log)):
        os.dup2(file, number)
    sys.argv = ["scrapy", *run["arguments"]]
    from scrapy import cmdline

    cmdline.execute()
    sys.exit(0)


if __name__ == "__main__":
    main()
