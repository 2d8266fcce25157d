"""Objects that exist once in a crawl and are shared by middlewares, pipelines and extensions."""

from collections.abc import Callable
from typing import TypeVar

from scrapy.crawler import Crawler

T = TypeVar("T")


def get_component(crawler: Crawler, kind: type[T], make: Callable[[], T] | None = None) -> T:
    """Returns the crawl's only object of a class. `make` creates it on the first call; by default the class does."""
    components = vars(crawler).setdefault("harvester_components", {})
    if kind not in components:
        components[kind] = (make or kind)()
    component: T = components[kind]
    return component
