"""Checks a project's spiders before they run: refusals, settings without effect, requests that cannot be saved.

It makes no requests. It reads callbacks and values from the source, and misses those that are made at run time.
"""

import ast
import inspect
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from scrapy import Spider
from scrapy.settings import BaseSettings

from harvester.addon import COMPONENTS, REPLACED
from harvester.config import names
from harvester.spiders import stock

_CALLABLES = ("callback", "errback")
_VALUES = ("meta", "cb_kwargs")
_OPENED = ("open", "ItemLoader")
"""Functions whose results cannot be sent to another process: names that end with one of the words."""


class Kind(StrEnum):
    """The kinds of findings, the worst first."""

    REFUSED = "refused"
    """The spider cannot crawl."""
    NOT_KEPT = "not kept"
    """The requests are lost when their process dies. `harvester worker` and jobs refuse them."""
    NO_EFFECT = "no effect"


class ProjectFinding(NamedTuple):
    """A fact about a project that has the add-on."""

    kind: Kind
    where: str
    """The spider, or the file and the line."""
    text: str


def check_spider(settings: BaseSettings, spider: type[Spider]) -> Iterator[ProjectFinding]:
    """Yields the findings for a spider.

    Args:
        settings: the project's settings, with the add-on's.
        spider: the spider's class.
    """
    given = settings.copy()
    spider.update_settings(given)
    missing = [ProjectFinding(Kind.REFUSED, name, fault) for name, fault in stock.not_imported(given)]
    yield from missing or (ProjectFinding(Kind.REFUSED, spider.name, fault) for fault in stock.faults(given, spider))
    for name, instead in stock.without_effect(given):
        yield ProjectFinding(Kind.NO_EFFECT, name, instead)
    for name in sorted(names().intersection(given)):
        yield ProjectFinding(Kind.NO_EFFECT, name, "no setting of Scrapy: set it in the environment or in .env.")
    yield from _check_source(spider)


def added(settings: BaseSettings) -> dict[str, list[str]]:
    """Returns a project's own components by the name of their setting, without those that harvester replaces."""
    own = {
        name: [
            str(each) for each, order in settings.getdict(name).items() if order is not None and each not in replaced
        ]
        for name, replaced in ((name, REPLACED.get(name, {})) for name in COMPONENTS)
    }
    return {name: components for name, components in own.items() if components}


def _check_source(spider: type[Spider]) -> Iterator[ProjectFinding]:
    """Yields the findings in the spider's module."""
    try:
        path = inspect.getsourcefile(spider)
        tree = ast.parse(Path(path or "").read_text("utf-8"))
    except (OSError, SyntaxError, TypeError, ValueError):  # the module has no source file
        return
    for function, call in _calls(tree):
        for argument in call.keywords:
            where = f"{path}, line {argument.value.lineno}"
            if argument.arg in _CALLABLES and (what := _nameless(argument.value, function)):
                yield ProjectFinding(Kind.NOT_KEPT, where, f"{argument.arg} is {what}; make it a method of the spider.")
            if argument.arg in _VALUES and isinstance(argument.value, ast.Dict):
                for value in argument.value.values:
                    if name := _opened(value):
                        said = f"{argument.arg} has what {name}() returns; hand on what it is made of."
                        yield ProjectFinding(Kind.NOT_KEPT, where, said)


def _calls(tree: ast.AST, function: ast.AST | None = None) -> Iterator[tuple[ast.AST | None, ast.Call]]:
    """Yields each call and the function around it."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Call):
            yield function, child
        yield from _calls(child, child if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function)


def _nameless(value: ast.expr, function: ast.AST | None) -> str:
    """Returns the kind of a callable without a name, or an empty text."""
    if isinstance(value, ast.Lambda):
        return "a lambda"
    inner: Iterable[ast.AST] = ast.walk(function) if function else ()
    names = {each.name for each in inner if isinstance(each, ast.FunctionDef) and each is not function}
    return "a function within another" if isinstance(value, ast.Name) and value.id in names else ""


def _opened(value: ast.expr) -> str:
    if not isinstance(value, ast.Call):
        return ""
    name = ast.unparse(value.func)
    return name if name.rpartition(".")[2].endswith(_OPENED) else ""
