"""The start list of a spider: entries that people push into Redis; one worker takes each, and none is lost.

A worker takes some entries, makes them durable elsewhere, and only then confirms them. Entries that a silent worker
had taken go to the next worker, with the place where they were filed, if they were. Entries that cannot be used
become dead letters. The start list may also be a set, or a sorted set whose entries with the highest score come
first.
"""

import os
import secrets
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from harvester.config import DATABASE
from harvester.exceptions import UsageError
from harvester.frontier import scripts
from harvester.frontier.keys import prefix_of, start_list_of

Bytes = bytes | str
Kind = Literal["list", "set", "zset"]
"""The type of the list in Redis, as the command TYPE returns it."""

_FILLED_BY = {"list": "`harvester feed`, lpush or rpush", "set": "sadd", "zset": "zadd"}
_COUNTED_BY = {"list": "llen", "set": "scard", "zset": "zcard"}
_decode = msgspec.msgpack.Decoder(tuple[bytes, str]).decode


class Taken(NamedTuple):
    """Entries that a worker has to make durable."""

    entries: list[bytes]
    elsewhere: int
    """Number of entries that other workers have taken and not confirmed."""


class DeadEntry(NamedTuple):
    """An entry that could not be used."""

    entry: str
    reason: str
    at: float
    """Epoch seconds."""


class StartList:
    """The start list of a spider, for one worker or one person."""

    def __init__(
        self,
        redis: Redis,
        spider: str,
        database: str = DATABASE,
        *,
        lease_seconds: float = 30.0,
        name: str = "",
        kind: Kind = "list",
    ) -> None:
        self._redis: Any = redis  # redis-py's annotations mix bytes and str, awaited and not
        self.name = name or start_list_of(spider)
        self._kind = kind
        self._prefix = prefix_of(spider, database)
        self._worker = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._lease_ms = int(lease_seconds * 1000)

    # Workers ----------------------------------------------------------------------------------------------

    async def take(self, most: int) -> Taken:
        """Takes entries from the front of the list. Entries taken before are returned again until they are confirmed.

        Returns all entries that a silent worker had taken instead, even if they are more than `most`. Raises
        UsageError when the key in Redis has another type.
        """
        try:
            return Taken(*await self._run("start_take", self._worker, most, self._lease_ms, self.name, self._kind))
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            raise UsageError(
                f"{self.name} in Redis is not a {self._kind}: remove it (redis-cli del {self.name}), and fill it with "
                f"{_FILLED_BY[self._kind]}."
            ) from None

    async def filed_in(self, part: str) -> str | None:
        """Returns the place where this part of the taken entries was filed, by this worker or a silent one before."""
        place: bytes | None = await self._redis.hget(f"{self._prefix}start:filed:{self._worker}", part)
        return place.decode() if place else None

    async def file_in(self, part: str, place: str) -> bool:
        """Saves where this part will be filed. False: another worker took it, since this one was silent."""
        return bool(await self._run("start_file", self._worker, part, place))

    async def confirm(self, dead: Iterable[tuple[bytes, str]] = ()) -> None:
        """Confirms that all taken entries are durable, except the `dead` ones (entry, reason)."""
        await self._run("start_confirm", self._worker, *map(msgspec.msgpack.encode, dead))

    async def leave(self) -> None:
        """Returns unconfirmed entries to the list; entries that were filed go to the next worker."""
        await self._run("start_leave", self._worker, self.name, self._kind)

    # People -----------------------------------------------------------------------------------------------

    async def push(self, entries: Sequence[Bytes]) -> int:
        """Appends entries; returns the length of the list."""
        return int(await self._redis.rpush(self.name, *entries))

    async def length(self) -> int:
        """Returns the number of entries that no worker has taken."""
        kind = (await self._redis.type(self.name)).decode()
        return int(await getattr(self._redis, _COUNTED_BY[kind])(self.name)) if kind in _COUNTED_BY else 0

    async def taken(self) -> dict[str, int]:
        """Returns for each worker the number of entries that it has taken and not confirmed."""
        workers = [name.decode() for name in await self._redis.zrange(f"{self._prefix}start:workers", 0, -1)]
        return {name: int(await self._redis.llen(f"{self._prefix}start:taken:{name}")) for name in workers}

    async def count_dead(self) -> int:
        """Returns the number of entries that could not be used."""
        return int(await self._redis.zcard(f"{self._prefix}start:dead"))

    async def dead(self, most: int = 100) -> list[DeadEntry]:
        """Returns entries that could not be used, the latest first."""
        rows = await self._redis.zrange(f"{self._prefix}start:dead", 0, most - 1, desc=True, withscores=True)
        letters = []
        for packed, at_ms in rows:
            entry, reason = _decode(packed)
            letters.append(DeadEntry(entry.decode(errors="replace"), reason, at_ms / 1000))
        return letters

    async def _run(self, name: str, *arguments: Bytes | float) -> Any:
        return await scripts.run(self._redis, name, self._prefix, *arguments)
