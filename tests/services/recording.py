"""Keeps a record, a picture and a session as a crawl does.

python -m tests.services.recording <data_dir> <state_dir>
"""

import asyncio
import sys
from pathlib import Path

from scrapy.utils.test import get_crawler

from harvester.pipelines.image_store import LocalStore
from harvester.pipelines.staging import SegmentPipeline
from harvester.sessions.kept import KeptFile

if __name__ == "__main__":
    data_dir, state_dir = map(Path, sys.argv[1:])
    LocalStore(str(data_dir / "images")).write("a/b.jpg", b"picture")
    pipeline = SegmentPipeline(get_crawler(), data_dir / "staging" / "any")
    asyncio.run(pipeline.open_spider())
    pipeline.write("post", [b"{}"])
    asyncio.run(pipeline.close_spider())
    KeptFile(state_dir / "sessions" / "any.json").write("a session")
