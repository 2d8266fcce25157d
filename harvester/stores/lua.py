"""Lua scripts, which Redis runs atomically.

They are read from a package's folder `lua`, and sent if Redis lacks them.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import NoScriptError


class Script(NamedTuple):
    """A script, and the digest that Redis knows it by after the first run."""

    text: str
    sha: str


@cache
def load(package: str, *names: str) -> Script:
    """Reads files from the package's folder `lua`, and joins them to one script."""
    folder = files(package).joinpath("lua")
    text = "\n".join(folder.joinpath(f"{name}.lua").read_text(encoding="utf-8") for name in names)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


async def run(redis: Redis, script: Script, keys: Sequence[str], *arguments: str | bytes | float) -> Any:
    """Runs a script and returns its result.

    Sends the script's text if Redis does not know it, for example after a restart.
    """
    try:
        return await redis.evalsha(script.sha, len(keys), *keys, *arguments)
    except NoScriptError:
        return await redis.eval(script.text, len(keys), *keys, *arguments)
