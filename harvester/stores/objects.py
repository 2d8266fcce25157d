"""Stores pictures, PDFs and files of flows in a local folder or an S3 bucket, at the paths in the records."""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

from scrapy.pipelines.files import FSFilesStore, S3FilesStore, StatInfo
from scrapy.pipelines.media import MediaPipeline
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.boto import is_botocore_available
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from harvester.exceptions import StorageError, UsageError
from harvester.stores.private_files import make_closed

_SEGMENT = r"[^./\\\x00-\x1f\x7f\ud800-\udfff][^/\\\x00-\x1f\x7f\ud800-\udfff]{0,250}"
_is_path = re.compile(f"{_SEGMENT}(?:/{_SEGMENT}){{0,15}}").fullmatch
MOST_NAME_BYTES, MOST_PATH_BYTES = 255, 900
"""Maximum number of bytes of a name, the limit of file systems, and of a whole path.

S3 allows 1,024 with the prefix.
"""
_PARTIAL = ".partial"
"""Folder for files that are being written. A killed process leaves its files there."""
LEFTOVER_S = 3600.0
"""Seconds until an unfinished file counts as left by a killed process."""
_TRIES = 3
"""Number of tries, since a purge may remove a folder while a file is written to it."""


def stored_path(path: str) -> str | None:
    """Returns the path of a record's file in the store; None if it could lead elsewhere, or no store accepts it."""
    if not _is_path(path) or len(path.encode()) > MOST_PATH_BYTES:
        return None
    return on_disk(path) if all(len(name.encode()) <= MOST_NAME_BYTES for name in path.split("/")) else None


def on_disk(path: str) -> str:
    """Returns the path as the store writes it.

    It is `did_plc_...` for `did:plc:...`, since Windows forbids colons in names.
    """
    return path.replace(":", "_")


def places_of(path: str) -> tuple[str, ...]:
    """Returns the possible paths of a stored file.

    These are the current one, and the one with colons that older versions wrote.
    """
    return tuple(dict.fromkeys((on_disk(path), path)))


def _digest(folder: str) -> str:
    """Returns a short stand-in for a folder in names of unfinished files.

    The folder's name may already have full length.
    """
    return blake2b(folder.encode(), digest_size=8).hexdigest()


def open_store(location: str) -> "LocalStore | S3Store":
    """Returns the store at a location. Raises UsageError for an unsupported location."""
    scheme, separator, rest = location.partition("://")
    if not separator or scheme == "file":
        return LocalStore(location)
    if scheme != "s3" or not rest.partition("/")[0]:
        raise UsageError(f"Files cannot be kept at {location!r}: give a folder, or s3://bucket/prefix.")
    if not is_botocore_available():
        raise UsageError("Files are to be kept in S3, which needs a package: pip install 'harvester[s3]'")
    return S3Store(location)


def _unusable(folder: str, error: OSError) -> StorageError:
    return StorageError(
        f"Files cannot be written to {folder}: {error.strerror or error}. Make room and let it be written, or"
        " set HARVESTER_IMAGES_STORE to another folder or to s3://bucket/prefix."
    )


class LocalStore(FSFilesStore):
    """A folder. A file appears in it whole or not at all, even if the process is killed."""

    def __init__(self, basedir: str) -> None:
        try:
            super().__init__(basedir)
        except OSError as error:
            raise _unusable(basedir, error) from error

    def stat_file(self, path: str | os.PathLike[str], info: MediaPipeline.SpiderInfo) -> StatInfo:
        """Returns the file's time, without the checksum, which requires reading the file.

        An empty file, as after a power cut, counts as missing.
        """
        return self._found(path)

    def find(self, path: str) -> str | None:
        """Returns the path of a record's file in the store; None if it is missing."""
        return next((place for place in places_of(path) if self._found(place)), None)

    def _found(self, path: str | os.PathLike[str]) -> StatInfo:
        try:
            found = self._get_filesystem_path(path).stat()
        except OSError:
            return {}
        return {"last_modified": found.st_mtime} if found.st_size else {}

    def address(self, path: str) -> str:
        """Returns the location of a file, for people."""
        return str(self._get_filesystem_path(path))

    def persist_file(  # type: ignore[override]  # not on the reactor's thread, as in S3FilesStore
        self,
        path: str,
        buf: BytesIO,
        info: MediaPipeline.SpiderInfo,
        meta: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Deferred[None]:
        return deferred_from_coro(run_in_thread(self.write, path, buf.getvalue()))

    def write(self, path: str, content: bytes) -> None:
        """Writes a file. Raises StorageError when room or permission is missing."""
        target = self._get_filesystem_path(path)
        partial = Path(self.basedir, _PARTIAL, f"{_digest(path.partition('/')[0])}~{uuid4().hex}")
        for attempt in range(_TRIES):
            try:
                self._mkdir(partial.parent)
                partial.write_bytes(content)
                self._mkdir(target.parent)
                os.replace(partial, target)
            except OSError as error:
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)
                if not isinstance(error, FileNotFoundError) or attempt == _TRIES - 1:
                    raise _unusable(self.basedir, error) from error
            else:
                return

    def remove_leftovers(self, folder: str = "", older_than_s: float = 0) -> None:
        """Removes unfinished files of killed processes."""
        before = time.time() - older_than_s
        for partial in Path(self.basedir, _PARTIAL).glob(f"{_digest(on_disk(folder))}~*" if folder else "*"):
            with contextlib.suppress(FileNotFoundError):
                if partial.stat().st_mtime < before:
                    partial.unlink()

    def _mkdir(self, dirname: Path, domain: MediaPipeline.SpiderInfo | None = None) -> None:
        """Makes a folder. Unlike Scrapy's method, it does not store the name of every folder."""
        if not dirname.exists():
            make_closed(Path(self.basedir))
            dirname.mkdir(parents=True, exist_ok=True)

    def files_of(self, folder: str) -> list[str]:
        """Returns the paths of the files in a folder."""
        if stored_path(folder) is None:
            return []
        root = Path(self.basedir)
        inside = [path for place in places_of(folder) for path in self._get_filesystem_path(place).rglob("*")]
        return sorted(path.relative_to(root).as_posix() for path in inside if path.is_file())

    def remove(self, folder: str) -> None:
        """Removes a folder and all its files. A name that could not belong to the store, such as `..`, is ignored."""
        if stored_path(folder) is None:
            return
        self.remove_leftovers(folder)
        for place in places_of(folder):
            path = self._get_filesystem_path(place)
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StorageError(f"Files in {path} cannot be removed: {error.strerror or error}") from error


class S3Store(S3FilesStore):
    """A bucket, accessed with the AWS_* environment variables (AWS_ENDPOINT_URL for other servers)."""

    s3_client: Any

    def __init__(self, uri: str) -> None:
        super().__init__(uri.rstrip("/") + "/")  # without the slash Scrapy joins prefix and name

    def address(self, path: str) -> str:
        """Returns the location of a file, for people."""
        return f"s3://{self.bucket}/{self.prefix}{path}"

    def stat_file(self, path: str, info: MediaPipeline.SpiderInfo) -> Deferred[StatInfo]:
        return super().stat_file(path, info).addErrback(lambda _: {})  # writing shows whether the server works

    def persist_file(self, *args: Any, **kwargs: Any) -> Deferred[Any]:
        return super().persist_file(*args, **kwargs).addErrback(self._not_written)

    def _not_written(self, failure: Failure) -> None:
        raise StorageError(f"Files cannot be written to the bucket {self.bucket}: {failure.value}") from failure.value

    def files_of(self, folder: str) -> list[str]:
        """Returns the paths of the files in a folder."""
        with self._reached():
            return [key.removeprefix(self.prefix) for key in self._keys(folder)]

    def remove(self, folder: str) -> None:
        """Removes all objects in a folder."""
        with self._reached():
            for key in self._keys(folder):
                self.s3_client.delete_object(Bucket=self.bucket, Key=key)

    def _keys(self, folder: str) -> Iterator[str]:
        pages = self.s3_client.get_paginator("list_objects_v2")
        for place in places_of(folder):
            for page in pages.paginate(Bucket=self.bucket, Prefix=f"{self.prefix}{place}/"):
                for found in page.get("Contents", ()):
                    yield found["Key"]

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError  # an extra, not always installed

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise StorageError(f"The bucket {self.bucket} cannot be used: {error}") from error
