"""Sends events to a Redis stream."""

import contextlib
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import InvalidResponse, RedisError

from harvester.config import Config
from harvester.publish.events import Event
from harvester.publish.faults import describe_fault
from harvester.publish.sending import SendFailure
from harvester.publish.sinks import RedisSink
from harvester.stores import redis


class RedisSender:
    """Confirms an entry when Redis has answered; with `appendfsync always` it is then on disk."""

    BATCH = 500

    def __init__(self, sink: RedisSink, config: Config) -> None:
        self._sink = sink
        self._config = config
        self._redis: Redis | None = None

    async def send(self, events: Sequence[Event]) -> list[SendFailure | None]:
        try:
            return await self._add(events)
        except InvalidResponse:  # its text is the response
            await self.close()
            return [SendFailure("what answers there is no Redis")] * len(events)
        except (RedisError, OSError) as error:
            await self.close()
            return [SendFailure(describe_fault(error))] * len(events)

    async def close(self) -> None:
        if self._redis is not None:
            with contextlib.suppress(RedisError, OSError):
                await self._redis.aclose()
            self._redis = None

    async def _add(self, events: Sequence[Event]) -> list[SendFailure | None]:
        if self._redis is None:
            self._redis = redis.connect(self._config) if self._sink.is_own else redis.client_of(self._sink.address())
        key, most = self._sink.stream, self._sink.most_entries
        room = len(events)
        trim: dict[str, Any] = {"maxlen": most, "approximate": True}
        if self._sink.when_full == "wait":
            trim = {}
            room = max(0, most - await self._redis.xlen(key))
        pipe = self._redis.pipeline(transaction=False)
        for event in events[:room]:
            pipe.xadd(key, {"id": event.id, "type": event.type, "event": event.body}, **trim)
        answers = await pipe.execute(raise_on_error=False)
        full = SendFailure(
            f"the stream {key} has {most:,} entries, which its readers have to trim (XTRIM {key} MINID ...)"
        )
        refused = [SendFailure(describe_fault(answer)) if isinstance(answer, Exception) else None for answer in answers]
        return refused + [full] * (len(events) - len(refused))
