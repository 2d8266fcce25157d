"""A worker that stores records and tells others of them, until it is killed: python -m tests.publish.telling NAME MOST.

It stores MOST posts of its own, each the next after those that are stored already, and of every third one a change.
Its configuration is in the environment, as that of a crawl. It prints a line when all are stored.
"""

import asyncio
import sys
from datetime import UTC, datetime

from msgspec.structs import replace

from harvester.config import load_config
from harvester.items import Batch, Record
from harvester.pipelines.mongo import MongoPipeline
from harvester.publish import delivering
from harvester.publish.relay import Relay
from harvester.publish.sinks import load_sinks
from harvester.stores import mongodb
from tests.pipelines.records import PAGE, crawler, post

PAGE_OF = 20
"""Records that are stored together."""
LONGEST_PAUSE_S = 2.0
"""A test does not wait for five minutes."""


def written(name: str, number: int, likes: int = 0) -> Record:
    """The post of that number, observed now."""
    return post(key=f"{name}-{number:06}", like_count=likes, provenance=replace(PAGE, fetched_at=datetime.now(UTC)))


async def main(name: str, most: int) -> None:
    delivering.MOST_PAUSE_S = LONGEST_PAUSE_S
    config = load_config()
    sinks = load_sinks(config)
    assert sinks
    database = mongodb.connect(config)
    running = asyncio.create_task(Relay(config, sinks, database).run())
    pipeline = MongoPipeline.from_crawler(crawler())
    await pipeline.open_spider()
    mine = {"_id": {"$regex": f"/{name}-"}}
    stored = await database["posts"].count_documents(mine)
    while stored < most:
        numbers = range(stored, min(stored + PAGE_OF, most))
        await pipeline.process_batch(Batch([written(name, number) for number in numbers]))
        again = [written(name, number, likes=number) for number in numbers if number % 3 == 0]
        await pipeline.process_batch(Batch(again))
        stored = numbers.stop
    print("stored", flush=True)
    await running


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
