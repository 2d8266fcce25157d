"""A worker that stores records and tells others of them, until it is killed: python -m tests.publish.telling NAME.

It stores posts of its own, a page after the other, and changes of those of the page before, which were told by then;
each the next after those that are stored already. When the file `enough` of its folder is there, it stores no more, and
says so in the collection `enough`. Its configuration is in the environment, as that of a crawl.
"""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from harvester.config import load_config
from harvester.items import Batch, Record
from harvester.pipelines.mongo import MongoPipeline
from harvester.publish import delivering
from harvester.publish.relay import EventRelay
from harvester.publish.sinks import load_sinks
from harvester.stores import mongodb
from tests.pipelines.records import PAGE, crawler, post

PAGE_OF = 20
"""Records that are stored together."""
ENOUGH = Path("enough")
PAUSE_S = 0.7
"""Between two pages: longer than a relay needs to see what is marked."""
LONGEST_PAUSE_S = 2.0
"""A test does not wait for five minutes."""


def written(name: str, number: int, likes: int = 0) -> Record:
    """The post of that number, observed now."""
    return post(key=f"{name}-{number:06}", like_count=likes, provenance=replace(PAGE, fetched_at=datetime.now(UTC)))


async def main(name: str) -> None:
    delivering.MOST_PAUSE_S = LONGEST_PAUSE_S
    config = load_config()
    sinks = load_sinks(config)
    assert sinks
    database = mongodb.connect(config)
    running = asyncio.create_task(EventRelay(config, sinks, database).run())
    pipeline = MongoPipeline.from_crawler(crawler())
    await pipeline.open_spider()
    mine = {"_id": {"$regex": f"/{name}-"}}
    stored = await database["posts"].count_documents(mine)
    while not ENOUGH.exists():  # noqa: ASYNC240
        numbers = range(stored, stored + PAGE_OF)
        await pipeline.process_batch(Batch([written(name, number) for number in numbers]))
        before = range(max(0, stored - PAGE_OF), stored)
        await pipeline.process_batch(Batch([written(name, number, likes=number) for number in before]))
        stored = numbers.stop
        await asyncio.sleep(PAUSE_S)
    await database["enough"].insert_one({"_id": name})
    await running


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
