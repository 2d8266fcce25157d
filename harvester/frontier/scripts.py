"""The Lua scripts that move requests: each runs as one step, so that no request is ever in two places or in none."""

from typing import Any

from redis.asyncio import Redis

from harvester.stores import lua

_WITH_BREAKERS = ("exchange", "give_back", "breaker_set", "breaker_probe")
"""Scripts that change the breakers of sites."""
_OF_WORKERS = ("status", "workers")
"""Scripts that tell who works at the frontier."""
_OF_START_LIST = ("start_take", "start_file", "start_confirm", "start_leave")
"""Scripts of the start list."""


def load(name: str) -> lua.Script:
    """The script of that name, with what it shares with others in front."""
    shared = {"breaker": _WITH_BREAKERS, "at_work": _OF_WORKERS, "start_list": _OF_START_LIST}
    more = [file for file, scripts in shared.items() if name in scripts]
    return lua.load("harvester.frontier", "common", "items", *more, name)


async def run(redis: Redis, name: str, prefix: str, *arguments: str | bytes | float) -> Any:
    """The script's answer, for the frontier whose keys begin with `prefix`."""
    return await lua.run(redis, load(name), [prefix], *arguments)
