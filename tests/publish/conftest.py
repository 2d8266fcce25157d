"""Records that are stored and published in this process, into real servers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from redis import Redis

from harvester.config import Config, read_config
from harvester.items import Batch, Record
from harvester.pipelines.mongo import MongoPipeline
from harvester.publish import relay
from harvester.publish.outbox import DUE
from harvester.publish.relay import EventRelay
from harvester.publish.sinks import load_sinks
from harvester.shutdown import stop
from harvester.stores import mongodb as stores
from tests.pipelines.records import crawler

Document = dict[str, Any]
LONGEST_S = 120.0
"""For what comes at once on a machine that is not busy."""


class House:
    """A database, a Redis, and a file of sinks."""

    def __init__(self, folder: Path, database: Database[Document], redis: Redis) -> None:
        self.file = folder / "publish.toml"
        self.database = database
        self.redis = redis

    @property
    def config(self) -> Config:
        return read_config()

    def publish(self, text: str) -> None:
        """What the file says from now on."""
        self.file.write_text(text)

    async def store(self, *records: Record) -> None:
        """As a crawl stores a page."""
        pipeline = MongoPipeline.from_crawler(crawler())
        await pipeline.open_spider()
        await pipeline.process_batch(Batch([*records]))
        await pipeline.close_spider()

    @asynccontextmanager
    async def relay(self) -> AsyncIterator[EventRelay]:
        sinks = load_sinks(self.config)
        assert sinks
        database: AsyncDatabase[Document] = stores.connect(self.config)
        made = EventRelay(self.config, sinks, database)
        task = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            await stop(task)
            await made.leave()
            await stores.disconnect(database)

    async def send(self, until: Callable[[], bool], within_s: float = LONGEST_S) -> None:
        """Has a relay send until something has come of it."""
        async with self.relay():
            await wait(until, within_s)

    def entries(self, stream: str = "harvester:events") -> list[Document]:
        """Events that lie in a stream, in order."""
        rows: Sequence[Any] = self.redis.xrange(stream)  # type: ignore[assignment]
        return [json.loads(fields[b"event"]) for _, fields in rows]

    def state(self, sink: str) -> Document:
        """What is known of a sink."""
        return self.database["publishing"].find_one({"_id": f"sink {sink}"}) or {}

    def marked(self) -> int:
        """Posts of which no deliveries were made."""
        return self.database["posts"].count_documents({DUE: {"$exists": True}})

    def waiting(self) -> int:
        """Deliveries that are not confirmed."""
        return self.database["deliveries"].count_documents({})


async def wait(until: Callable[[], bool], within_s: float = LONGEST_S) -> None:
    async with asyncio.timeout(within_s):
        while not until():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
def house(
    tmp_path: Path, mongodb: Database[Document], mongodb_uri: str, own_redis: str, monkeypatch: pytest.MonkeyPatch
) -> Any:
    variables = {
        "MONGODB_URI": mongodb_uri,
        "REDIS_URL": own_redis,
        "DATABASE": mongodb.name,
        "DATA_DIR": str(tmp_path / "data"),
        "STATE_DIR": str(tmp_path / "state"),
        "PUBLISH_FILE": str(tmp_path / "publish.toml"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"HARVESTER_{name}", value)
    monkeypatch.setattr(relay, "IDLE_S", 0.02)
    monkeypatch.setattr(relay, "TAKE_S", 0.05)
    with Redis.from_url(own_redis) as redis:
        made = House(tmp_path, mongodb, redis)
        made.publish('[posts]\nkind = "redis"\nrecords = ["post"]\n')
        yield made
