"""Translates callbacks and errbacks to names, and names back to functions.

A name that comes from Redis must not call every method of a spider (`close`, `from_crawler`, `update_settings`). So a
name stands either for a function of the project that takes an argument and is not named like a hook of Scrapy, or for
a function of a library whose first argument is a response or a failure.
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
"""Names of the first argument in a library's callback, or endings for its annotation."""
_HOOKS = frozenset({"closed", "start_requests", "setup_redis", "spider_idle", "item_scraped", "parse_arguments"})
"""Methods that Scrapy and its extensions call by name, and that spiders do not inherit."""
_LIBRARIES = frozenset({"builtins", "harvester", "scrapy", "scrapy_redis"})
"""Packages whose classes do not belong to a project."""

Name = str | list[Any]
"""`method`, `attribute.method` of the spider, or `module:function`; for a partial, a list of name and arguments."""


class UnknownCallbackError(Exception):
    """A callback that cannot be named, or a name that no callback of the spider has."""


def name_of(function: Callable[..., Any] | None, spider: Spider, role: str) -> Name | None:
    """Returns the name of a request's callback or errback; `role` says which. Raises UnknownCallbackError."""
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
    """Returns the function with that name. Raises UnknownCallbackError when no function that may be called has it."""
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
    """Returns the packages of the spider's classes, which include the project's."""
    return {kind.__module__.split(".")[0] for kind in type(spider).__mro__} - {"builtins"}


def _names(function: Any, spider: Spider) -> list[str]:
    """Returns all names that the function may have."""
    if not isinstance(function, MethodType) or isinstance(function.__self__, type):
        module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
        return [f"{module}:{name}"]
    owner, own = function.__self__, function.__func__.__name__
    names = [own, *(f"_{kind.__name__.lstrip('_')}{own}" for kind in type(owner).__mro__)]  # for a private `__parse`
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
    kind: Any = type(owner)  # mypy mistakes the hash of instances for the hash of the class
    return getattr(owner, name) if owner is not None and _is_callback(kind, name) else None


def _function(owner: Any, path: str) -> Callable[..., Any] | None:
    """Returns the function of a module, or of a class in it, with this qualified name."""
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, "__dict__", {}).get(each)
    static = getattr(owner, "__dict__", {}).get(name)
    if name.startswith("__") or not isinstance(static, FunctionType | staticmethod | classmethod):
        return None
    return getattr(owner, name)  # type: ignore[no-any-return]


@lru_cache(maxsize=1000)
def _is_callback(kind: Any, name: str) -> bool:
    """Returns True if objects of the class have such a method and it may be called."""
    if name in _HOOKS or (name.startswith("__") and name.endswith("__")):
        return False
    found = [(each, vars(each)[name]) for each in kind.__mro__ if name in vars(each)]
    return bool(found) and all(
        isinstance(function, FunctionType)
        and (_says_so(function) if each.__module__.split(".")[0] in _LIBRARIES else _takes_one(function, 1))
        for each, function in found
    )


def _says_so(function: FunctionType) -> bool:
    """Returns True if the name or annotation of the first argument says response or failure."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if not parameters:
        return False
    annotation = parameters[0].annotation
    said = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameters[0].name in _FIRST or said.lower().endswith(_FIRST)


def _takes_one(function: Any, already: int = 0) -> bool:
    """Returns True if the function takes an argument by position, after the `already` bound ones."""
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return True
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in by_position for kind in kinds) > already
