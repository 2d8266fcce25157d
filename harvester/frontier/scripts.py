"""The Lua scripts that move requests: each runs as one step, so that no request is ever in two places or in none."""

from typing import Any

from redis.asyncio import Redis

from harvester.stores import lua

_WITH_BREAKERS = ("exchange", "breaker_set", "breaker_probe")
"""Scripts that change the breakers of sites."""


def load(name: str) -> lua.Script:
    """The script of that name, with what it shares with others in front."""
    shared = ("common", "items", "breaker") if name in _WITH_BREAKERS else ("common", "items")
    return lua.load("harvester.frontier", *shared, name)


async def run(redis: Redis, name: str, prefix: str, *arguments: str | bytes | float) -> Any:
    """The script's answer, for the frontier whose keys begin with `prefix`."""
    return await lua.run(redis, load(name), [prefix], *arguments)
