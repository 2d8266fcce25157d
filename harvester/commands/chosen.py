"""Entry points for Scrapy's commands. They choose harvester's in a project with the add-on, and Scrapy's elsewhere.

Scrapy creates all commands at every start, in each project of the environment. So this module imports little.
"""

import asyncio
import gc
import sys
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from harvester.worker import interrupts

if sys.argv[1:2] in (["crawl"], ["import"]):  # other commands, like `scrapy shell`, handle Ctrl-C themselves
    interrupts.end_on_signals()  # before the long imports, until Scrapy handles signals

from scrapy.commands import ScrapyCommand
from scrapy.utils.project import get_project_settings

from harvester.addon import is_brought_into
from harvester.exceptions import UsageError
from harvester.project import check_add_ons
from harvester.worker.egg import check_imported


class _Chosen:
    """A stand-in for harvester's command, which is imported when something is asked of it."""

    def __new__(cls) -> Any:
        return super().__new__(cls) if _prepared() else import_module(f"scrapy.commands.{cls._module()}").Command()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._command, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._command, name, value)

    @cached_property
    def _command(self) -> ScrapyCommand:
        gc.disable()  # else Python looks for garbage among all modules, again and again
        try:
            module = import_module(f"harvester.commands.{self._module()}")
        finally:
            gc.freeze()
            gc.enable()
        command: ScrapyCommand = getattr(module, f"{type(self).__name__}Command")()
        return command

    @classmethod
    def _module(cls) -> str:
        return cls.__name__.lower()


class Bench(_Chosen): ...


class Check(_Chosen): ...


class Crawl(_Chosen): ...


class Fetch(_Chosen): ...


class Genspider(_Chosen): ...


class Parse(_Chosen): ...


class Runspider(_Chosen): ...


class Shell(_Chosen): ...


class View(_Chosen): ...


class Import(_Chosen):
    """`scrapy import`, a command that Scrapy itself does not have."""

    def __new__(cls) -> Any:
        return super().__new__(cls) if _prepared() else NoImport()


class NoImport(ScrapyCommand):
    """`scrapy import` in a project without the add-on: prints how to add it."""

    requires_project = True

    def short_desc(self) -> str:
        return "Read staged files of harvester, which is not in this project"

    def run(self, args: list[str], opts: Any) -> None:
        print('Put ADDONS = {"harvester.Addon": 500} into settings.py, or call harvester project add.', file=sys.stderr)
        self.exitcode = UsageError.exit_code


@cache
def _prepared() -> bool:
    """Returns True in a project with the add-on, and prepares the process for harvester's commands."""
    settings = get_project_settings()
    try:
        check_add_ons(settings)
        if not is_brought_into(settings):
            return False
        check_imported()
    except UsageError as error:  # Scrapyd shows stderr to the user who deploys
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    if sys.platform != "win32":
        import uvloop

        # Scrapy would first create asyncio's own loop and drop it, and Python would complain about it at exit.
        asyncio.set_event_loop(uvloop.new_event_loop())
    return True
