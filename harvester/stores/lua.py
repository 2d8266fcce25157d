"""Lua scripts, which Redis runs as one step each: read from the folder `lua` of a room, sent when Redis lacks them."""

from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import NoScriptError


class Script(NamedTuple):
    """A script and the name by which Redis knows it once it has run."""

    text: str
    sha: str


@cache
def load(package: str, *names: str) -> Script:
    """These files of the package's folder `lua`, one after the other, as one script."""
    folder = files(package).joinpath("lua")
    text = "\n".join(folder.joinpath(f"{name}.lua").read_text(encoding="utf-8") for name in names)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


async def run(redis: Redis, script: Script, keys: Sequence[str], *arguments: str | bytes | float) -> Any:
    """The script's answer. Sends the script when Redis does not know it (yet, or since it was restarted)."""
    try:
        return await redis.evalsha(script.sha, len(keys), *keys, *arguments)
    except NoScriptError:
        return await redis.eval(script.text, len(keys), *keys, *arguments)
