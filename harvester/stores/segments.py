"""Segments: the files of JSON lines that pipelines write. A write error ends the run, and its page is not done."""

import logging
from pathlib import Path

from scrapy.crawler import Crawler

from harvester.exceptions import StorageError
from harvester.shutdown import CAUSE, EXIT_CODE, RunEnding, end
from harvester.stores.private_files import make_closed
from harvester.stores.staging import SegmentWriter, recover

logger = logging.getLogger(__name__)

REASON = "storage_error"
"""Finish reason of a run that cannot write."""
_REMEDY = "Make room and let it be written, or set HARVESTER_DATA_DIR to another folder."


class Segments:
    """Writes segments below `folder`. A failure sets the stat `harvester/exit_code` to the code of StorageError."""

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        self.crawler = crawler
        self.folder = folder
        self._writer = SegmentWriter(folder)
        self._is_open = self._failed = False

    def open(self) -> None:
        """Completes the segments of killed runs. Raises StorageError."""
        self._is_open = True
        try:
            make_closed(self.folder)
            recover(self.folder)
        except OSError as error:
            raise self._told(f"{self.folder} cannot be made: {error.strerror or error}.") from None
        except StorageError as error:
            raise self._told(str(error)) from None

    def close(self) -> None:
        """Gives the segments their final names, and completes the segments of processes killed in the meantime."""
        try:
            self._writer.close()
            if self._is_open:
                recover(self.folder)
        except StorageError as error:
            self._told(str(error))

    def write(self, kind: str, lines: list[bytes]) -> int:
        """Writes lines. Returns their compressed size in bytes.

        Raises StorageError, and ends the run. From then on it raises RunEnding.
        """
        if self._failed:
            raise RunEnding("earlier ones could not be written; they are fetched again when the crawl is continued")
        try:
            if not self._is_open:
                self.open()
            return self._writer.write(kind, lines)
        except StorageError as error:
            self._failed = True
            failure = self._told(str(error))
            end(self.crawler, error.finish_reason, error.exit_code, str(failure))
            raise failure from None

    def _told(self, said: str) -> StorageError:
        failure = StorageError(said if said.endswith(_REMEDY) else f"{said} {_REMEDY}")
        logger.error("%s", failure)
        self.crawler.stats.set_value(EXIT_CODE, failure.exit_code)
        self.crawler.stats.set_value(CAUSE, str(failure))
        return failure
