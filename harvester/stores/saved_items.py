"""Items of pages that are done, saved until their crawl is over, so that feeds of a run that continues it have them.

<data folder>/feeds/<database>/<spider>/pages/...   segments, a line a page: its name, its fate, what it gave
<data folder>/feeds/<database>/<spider>/files.json  file that is continued (-o) -> its size before the crawl
"""

import json
import os
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from scrapy.crawler import Crawler

from harvester.config import Config
from harvester.stores.private_files import make_closed
from harvester.stores.segments import Segments
from harvester.stores.staging import SUFFIX, read_segment

_KIND = "pages"
_FILES = "files.json"
_CLOSED = "closed"
"""File that is there when the last run ended in order: what it wrote to files stays if a crawl begins anew."""


class SavedPage(NamedTuple):
    """What a page gave."""

    name: str
    is_dead: bool
    """Whether it failed after it had given these."""
    items: list[bytes]


def saved_folder(config: Config, spider: str) -> Path:
    """Where the items of a crawl of the spider are saved."""
    return config.data_dir / "feeds" / config.database / spider


def files_begun(folder: Path) -> dict[str, int]:
    """Size of each file that the crawl writes to, as it was before."""
    try:
        sizes: dict[str, int] = json.loads((folder / _FILES).read_bytes())
    except FileNotFoundError:
        return {}
    return sizes


class SavedItems:
    """Saves the items of a crawl. Raises StorageError, and has the run ended, when they cannot be written."""

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        self._folder = folder
        self._segments = Segments(crawler, folder)
        self._files = files_begun(folder)

    def begin_anew(self) -> None:
        """Forgets the pages of the crawl before. If it was killed, what it wrote to files will be cut off."""
        files = {} if (self._folder / _CLOSED).exists() else self._files
        self.forget()
        if files:
            self._write_files(files)

    def go_on(self) -> None:
        """The crawl before is continued."""
        (self._folder / _CLOSED).unlink(missing_ok=True)

    def forget(self) -> None:
        """The crawl is over."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._files = {}

    def begin(self, file: Path) -> None:
        """Cuts off what earlier runs of the crawl wrote to a file, so that all of it is written once more."""
        size = file.stat().st_size if file.is_file() else 0
        before = self._files.get(str(file))
        if before is None:
            self._write_files(self._files | {str(file): size})
        elif before < size:
            os.truncate(file, before)

    def _write_files(self, files: dict[str, int]) -> None:
        make_closed(self._folder)
        written = self._folder / f"{_FILES}.tmp"
        written.write_text(json.dumps(files))
        written.replace(self._folder / _FILES)
        self._files = files

    def save(self, page: SavedPage) -> None:
        """When this returns, no SIGKILL can lose it."""
        given = b64encode(msgspec.msgpack.encode(page.items))
        self._segments.write(_KIND, [b"%s %d %s" % (page.name.encode(), page.is_dead, given)])

    def read(self) -> Iterator[SavedPage]:
        """All pages that were saved, in their order. What a killed run left is completed first."""
        self._segments.open()
        for path in sorted(self._folder.glob(f"{_KIND}/*/*{SUFFIX}")):
            for line in read_segment(path):
                name, dead, given = line.rsplit(b" ", 2)
                items = msgspec.msgpack.decode(b64decode(given), type=list[bytes])
                yield SavedPage(name.decode(), dead == b"1", items)

    def close(self) -> None:
        self._segments.close()
        if self._folder.is_dir():
            (self._folder / _CLOSED).touch()
