"""What can be known of a project's spiders before they run: what is refused, what has no effect, what cannot be kept.

Nothing is asked for. Of callbacks and values only the source is read, so that what it makes at run time is not seen.
"""

import ast
import inspect
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from scrapy import Spider
from scrapy.settings import BaseSettings

from harvester.addon import COMPONENTS
from harvester.spiders import stock

_CALLABLES = ("callback", "errback")
_VALUES = ("meta", "cb_kwargs")
_OPENED = ("open", "ItemLoader")
"""Names of functions, or their ends, whose values no other process can have."""


class Kind(StrEnum):
    """Of a finding, the worst first."""

    REFUSED = "refused"
    """No crawl of the spider begins."""
    NOT_KEPT = "not kept"
    """Such requests end with the process that made them; `harvester worker` and jobs refuse them."""
    NO_EFFECT = "no effect"


class Finding(NamedTuple):
    """Something that whoever brings a project over should know."""

    kind: Kind
    where: str
    """The spider, or the file and the line."""
    text: str


def check_spider(settings: BaseSettings, spider: type[Spider]) -> Iterator[Finding]:
    """Yields what is to be known of a spider. `settings`: those of its project, with the add-on's."""
    given = settings.copy()
    spider.update_settings(given)
    for fault in stock.faults(given, spider):
        yield Finding(Kind.REFUSED, spider.name, fault)
    for name, instead in stock.without_effect(given):
        yield Finding(Kind.NO_EFFECT, name, instead)
    yield from _check_source(spider)


def added(settings: BaseSettings) -> dict[str, list[str]]:
    """Setting -> the project's own components, which stand beside harvester's."""
    given = {name: settings.getdict(name).items() for name in COMPONENTS}
    own = {name: [str(each) for each, order in components if order is not None] for name, components in given.items()}
    return {name: components for name, components in own.items() if components}


def _check_source(spider: type[Spider]) -> Iterator[Finding]:
    """Of the module in which its class stands."""
    try:
        path = inspect.getsourcefile(spider)
        tree = ast.parse(Path(path or "").read_text("utf-8"))
    except (OSError, SyntaxError, TypeError, ValueError):  # it has no source here
        return
    for function, call in _calls(tree):
        for argument in call.keywords:
            where = f"{path}, line {argument.value.lineno}"
            if argument.arg in _CALLABLES and (what := _nameless(argument.value, function)):
                yield Finding(Kind.NOT_KEPT, where, f"{argument.arg} is {what}; make it a method of the spider.")
            if argument.arg in _VALUES and isinstance(argument.value, ast.Dict):
                for value in argument.value.values:
                    if name := _opened(value):
                        said = f"{argument.arg} has what {name}() returns; hand on what it is made of."
                        yield Finding(Kind.NOT_KEPT, where, said)


def _calls(tree: ast.AST, function: ast.AST | None = None) -> Iterator[tuple[ast.AST | None, ast.Call]]:
    """Each call, with the function in which it stands."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Call):
            yield function, child
        yield from _calls(child, child if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function)


def _nameless(value: ast.expr, function: ast.AST | None) -> str:
    """What a callable is that cannot be found again by its name; empty when it can be."""
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
