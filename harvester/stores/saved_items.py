"""Saves the items of finished pages until the crawl is over, for the feeds of a run that continues it.

<data folder>/feeds/<database>/<spider>/pages/...   segments, a line for each page: name, flag of failure, items
<data folder>/feeds/<database>/<spider>/files.json  size of each continued file (-o) before the crawl
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
"""Name of a file that exists if the last run ended in order. Then its output to files stays if a new crawl begins."""


class SavedPage(NamedTuple):
    """The items of a page."""

    name: str
    is_dead: bool
    """True if the page failed after it had yielded these items."""
    items: list[bytes]


def saved_folder(config: Config, spider: str) -> Path:
    """Returns the folder for the saved items of a spider's crawl."""
    return config.data_dir / "feeds" / config.database / spider


def files_begun(folder: Path) -> dict[str, int]:
    """Returns the sizes that the output files of the crawl had before the crawl."""
    try:
        sizes: dict[str, int] = json.loads((folder / _FILES).read_bytes())
    except FileNotFoundError:
        return {}
    return sizes


class SavedItems:
    """Saves the items of a crawl. Raises StorageError and ends the run when they cannot be written."""

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        self._folder = folder
        self._segments = Segments(crawler, folder)
        self._files = files_begun(folder)

    def begin_anew(self) -> None:
        """Forgets the pages of the previous crawl. If that was killed, its output will be cut off from the files."""
        files = {} if (self._folder / _CLOSED).exists() else self._files
        self.forget()
        if files:
            self._write_files(files)

    def go_on(self) -> None:
        """Continues the previous crawl."""
        (self._folder / _CLOSED).unlink(missing_ok=True)

    def forget(self) -> None:
        """Removes the saved items, because the crawl is over."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._files = {}

    def begin(self, file: Path) -> None:
        """Cuts off the output of earlier runs of the crawl from a file, so that everything is written again."""
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
        """Saves a page. When this returns, a SIGKILL cannot lose it."""
        given = b64encode(msgspec.msgpack.encode(page.items))
        self._segments.write(_KIND, [b"%s %d %s" % (page.name.encode(), page.is_dead, given)])

    def read(self) -> Iterator[SavedPage]:
        """Yields all saved pages, in their order. Completes the segments of a killed run first."""
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
