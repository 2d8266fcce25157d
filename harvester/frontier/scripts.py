"""The Lua scripts that move requests: each runs atomically, so that a request always has exactly one state."""

from typing import Any

from redis.asyncio import Redis

from harvester.stores import lua

_WITH_BREAKERS = ("exchange", "give_back", "breaker_set", "breaker_probe")
"""Scripts that change the breakers of sites."""
_OF_WORKERS = ("status", "workers")
"""Scripts that list the workers of the frontier."""
_OF_START_LIST = ("start_take", "start_file", "start_confirm", "start_leave")
"""Scripts of the start list."""


def load(name: str) -> lua.Script:
    """Returns the script with that name, with its shared parts in front."""
    shared = {"breaker": _WITH_BREAKERS, "at_work": _OF_WORKERS, "start_list": _OF_START_LIST}
    more = [file for file, scripts in shared.items() if name in scripts]
    return lua.load("harvester.frontier", "common", "items", *more, name)


async def run(redis: Redis, name: str, prefix: str, *arguments: str | bytes | float) -> Any:
    """Runs the script for the frontier whose keys begin with `prefix`, and returns its result."""
    return await lua.run(redis, load(name), [prefix], *arguments)
