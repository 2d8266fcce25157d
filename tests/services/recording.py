"""Keeps a record, a picture and a session as a crawl does.

python -m tests.services.recording <data_dir> <state_dir>
"""

import sys
from pathlib import Path

from scrapy.utils.test import get_crawler

from harvester.identities.secret_file import SecretFile
from harvester.pipelines.segments import Segments
from harvester.stores.objects import LocalStore

if __name__ == "__main__":
    data_dir, state_dir = map(Path, sys.argv[1:])
    LocalStore(str(data_dir / "images")).write("a/b.jpg", b"picture")
    segments = Segments(get_crawler(), data_dir / "staging" / "any")
    segments.open()
    segments.write("post", [b"{}"])
    segments.close()
    SecretFile(state_dir / "sessions" / "any.json").write("a session")
