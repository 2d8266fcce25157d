"""The names of the project's spiders, for the other services."""

import asyncio
import os
from functools import cache

from harvester.exceptions import UnknownJob
from harvester.project import SETTINGS_MODULE, spider_loader, unknown_spider


async def spiders(named: str = "") -> list[str]:
    """Returns the spider named so, or all spiders of the project. Raises UnknownJob for an unknown name."""
    known = await asyncio.to_thread(_names, os.environ.get(SETTINGS_MODULE, ""))
    if not named:
        return list(known)
    if named not in known:
        raise UnknownJob(unknown_spider(named, spider_loader()))
    return [named]


@cache
def _names(project: str) -> tuple[str, ...]:
    """Returns the spider names of the project with this settings module.

    Cached, because a project changes only with its process.
    """
    return tuple(sorted(spider_loader().list()))
