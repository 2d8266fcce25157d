"""The Lua scripts that move requests: each runs as one step, so that no request is ever in two places or in none."""

from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError


class Script(NamedTuple):
    """A script and the name by which Redis knows it once it has run."""

    text: str
    sha: str


_WITH_BREAKERS = ("exchange", "breaker_set", "breaker_probe")
"""Scripts that change the breakers of sites."""


@cache
def load(name: str) -> Script:
    """The script of that name, with what it shares with others in front."""
    folder = files("harvester.frontier").joinpath("lua")
    shared = ["common", "items", "breaker"] if name in _WITH_BREAKERS else ["common", "items"]
    text = "\n".join(folder.joinpath(f"{each}.lua").read_text(encoding="utf-8") for each in (*shared, name))
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


async def run(redis: "Redis | RedisCluster", name: str, prefix: str, *arguments: str | bytes | float) -> Any:
    """The script's answer. The script is sent when Redis does not know it (yet, or since it was restarted)."""
    script = load(name)
    try:
        return await redis.evalsha(script.sha, 1, prefix, *arguments)
    except NoScriptError:
        return await redis.eval(script.text, 1, prefix, *arguments)
