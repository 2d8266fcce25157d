"""The spiders of the project, as the other services need them."""

import asyncio
import os
from functools import cache

from harvester.exceptions import UnknownJob
from harvester.project import SETTINGS_MODULE, spider_loader, unknown_spider


async def spiders(named: str = "") -> list[str]:
    """The spider of that name, or all of the project. Raises UnknownJob when there is none of that name."""
    known = await asyncio.to_thread(_names, os.environ.get(SETTINGS_MODULE, ""))
    if not named:
        return list(known)
    if named not in known:
        raise UnknownJob(unknown_spider(named, spider_loader()))
    return [named]


@cache
def _names(project: str) -> tuple[str, ...]:
    """Of the project with this module of settings, by name. They are read once: a project changes with its process."""
    return tuple(sorted(spider_loader().list()))
