"""Callbacks and errbacks as names, and found again by them.

A name that comes from Redis must not call whatever a spider has (`close`, `from_crawler`, `update_settings`). So it
names a function of the project that takes an argument and is none of Scrapy's hooks, or one of a library that says by
its first argument that it takes an answer or a failure.
"""

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any

from scrapy import Spider

from harvester.frontier.values import to_plain

_FIRST = ("response", "failure")
"""What the first argument of a callback of a library is called, or how its annotation ends."""
_HOOKS = frozenset({"closed", "start_requests", "setup_redis", "spider_idle", "item_scraped", "parse_arguments"})
"""Methods that Scrapy and its extensions call by name, and that spiders do not inherit."""
_LIBRARIES = frozenset({"builtins", "harvester", "scrapy", "scrapy_redis"})
"""Packages whose classes are no spider's own."""

Name = str | list[Any]
"""`method`, `attribute.method` of the spider, or `module:function`; of a partial a list of it and its arguments."""


class UnknownCallbackError(Exception):
    """A callback that is not found again by a name."""


def name_of(function: Callable[..., Any] | None, spider: Spider, role: str) -> Name | None:
    """Returns the name of a request's callback or errback, as `role` says. Raises UnknownCallbackError."""
    if function is None:
        return None
    if isinstance(function, partial):
        name = name_of(function.func, spider, role)
        return [name, to_plain([*function.args], f"{role}, its arguments"), to_plain(function.keywords, role)]
    for name in _names(function, spider):
        if (found := _found(name, spider)) is not None and found == function:
            return name
    raise UnknownCallbackError(
        f"its {role}, {function!r}, is not found again by a name: it is no method of the spider {spider.name}, and no"
        " function at the top level of a module of its project. Give a method, and what it needs to know in cb_kwargs"
    )


def callback_of(name: Name | None, spider: Spider) -> Callable[..., Any] | None:
    """Returns the function of that name. Raises UnknownCallbackError when there is none that may be called."""
    if name is None:
        return None
    if isinstance(name, list):
        of, arguments, keywords = name
        function: Any = callback_of(of, spider)
        return partial(function, *arguments, **keywords)
    if (found := _found(name, spider)) is None:
        raise UnknownCallbackError(f"the method {name!r}, which {spider.name} has not as a callback")
    return found


def packages_of(spider: Spider) -> set[str]:
    """Returns the packages of the spider's classes, the project's among them."""
    return {kind.__module__.split(".")[0] for kind in type(spider).__mro__} - {"builtins"}


def _names(function: Any, spider: Spider) -> list[str]:
    """Returns the names under which the function may be found."""
    if not isinstance(function, MethodType) or isinstance(function.__self__, type):
        module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
        return [f"{module}:{name}"]
    owner, own = function.__self__, function.__func__.__name__
    names = [own, *(f"_{kind.__name__.lstrip('_')}{own}" for kind in type(owner).__mro__)]  # of `__parse` in a class
    if owner is spider:
        return names
    attributes = [name for name, value in vars(spider).items() if value is owner]
    return [f"{attribute}.{name}" for attribute in attributes for name in names]


def _found(name: str, spider: Spider) -> Callable[..., Any] | None:
    owner: Any = spider
    if ":" in name:
        module, _, path = name.partition(":")
        function = _function(sys.modules.get(module), path)
        is_own = module.split(".")[0] in packages_of(spider) - _LIBRARIES
        return function if is_own and function is not None and _takes_one(function) else None
    if "." in name:
        attribute, _, name = name.partition(".")
        owner = vars(spider).get(attribute)
    kind: Any = type(owner)  # mypy takes the hash of its instances for its own
    return getattr(owner, name) if owner is not None and _is_callback(kind, name) else None


def _function(owner: Any, path: str) -> Callable[..., Any] | None:
    """Returns the function of a module, or of a class in it, that has this qualified name."""
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, "__dict__", {}).get(each)
    static = getattr(owner, "__dict__", {}).get(name)
    if name.startswith("__") or not isinstance(static, FunctionType | staticmethod | classmethod):
        return None
    return getattr(owner, name)  # type: ignore[no-any-return]


@lru_cache(maxsize=1000)
def _is_callback(kind: Any, name: str) -> bool:
    """Tells whether objects of the class have such a method."""
    if name in _HOOKS or (name.startswith("__") and name.endswith("__")):
        return False
    found = [(each, vars(each)[name]) for each in kind.__mro__ if name in vars(each)]
    return bool(found) and all(
        isinstance(function, FunctionType)
        and (_says_so(function) if each.__module__.split(".")[0] in _LIBRARIES else _takes_one(function, 1))
        for each, function in found
    )


def _says_so(function: FunctionType) -> bool:
    """Tells whether the first argument is called as an answer or a failure, or annotated so."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if not parameters:
        return False
    annotation = parameters[0].annotation
    said = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameters[0].name in _FIRST or said.lower().endswith(_FIRST)


def _takes_one(function: Any, already: int = 0) -> bool:
    """Tells whether it takes an argument by position, beside the one that is bound `already`."""
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return True
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in by_position for kind in kinds) > already
