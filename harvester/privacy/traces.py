"""Removes an account's names from harvester's own traces: requested addresses, arguments of runs, reports, logs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pymongo.database import Database

from harvester.config import Config
from harvester.exceptions import StorageError
from harvester.items import RECORDS
from harvester.parsers.bluesky.scrub import PURGED

Document = dict[str, Any]

DONE = ("runs", "audit", "batches", "idempotency_keys")
"""Collections of past actions, with their commands and results."""


class Names(NamedTuple):
    """The names of an account in a text."""

    pattern: str
    """Pattern for its DID, plain or percent-encoded, and its handle, as whole words."""

    @classmethod
    def of(cls, did: str, handle: str = "") -> "Names":
        """Returns the names; `handle` is empty if it is unknown."""
        dids = "|".join({re.escape(did), re.escape(quote(did, safe=""))})
        pattern = rf"(?:{dids})(?![A-Za-z0-9._:%-])"
        if handle and handle != "handle.invalid":
            pattern += rf"|(?<![A-Za-z0-9.-])(?i:{re.escape(handle)})(?![A-Za-z0-9-]|\.[A-Za-z0-9])"
        return cls(pattern)

    def left_out(self, value: Any) -> Any:
        """Returns the value with all names in its texts replaced."""
        if isinstance(value, str):
            return re.sub(self.pattern, PURGED, value)
        if isinstance(value, bytes):
            return re.sub(self.pattern.encode(), PURGED.encode(), value)
        if isinstance(value, dict):
            return {self.left_out(name): self.left_out(part) for name, part in value.items()}
        return [self.left_out(part) for part in value] if isinstance(value, list) else value


def remove_traces(database: Database[Document], config: Config, names: Names) -> list[StorageError]:
    """Removes the names from the traces. Returns the errors of writes that failed."""
    found = {"$regex": names.pattern}
    for kind in RECORDS.values():
        if kind.OWNERS:
            where = {"$or": [{"provenance.url": found}, {"provenance.item": found}]}
            for row in list(database[kind.COLLECTION].find(where, {"provenance": 1})):
                left = names.left_out(row["provenance"])
                database[kind.COLLECTION].update_one({"_id": row["_id"]}, {"$set": {"provenance": left}})
    for name in DONE:
        for row in database[name].find():
            if names.left_out(row["_id"]) != row["_id"]:  # a caller's idempotency key
                database[name].delete_one({"_id": row["_id"]})
            elif changed := {field: left for field in row if (left := names.left_out(row[field])) != row[field]}:
                database[name].update_one({"_id": row["_id"]}, {"$set": changed})
    expression, problems = re.compile(names.pattern.encode()), list[StorageError]()
    for path in _written(database, config):
        try:
            if expression.search(path.read_bytes()):
                _blot_out(path, expression)
        except OSError as error:
            problems.append(StorageError(f"{path} cannot be written: {error.strerror or error}."))
    return problems


def _written(database: Database[Document], config: Config) -> Iterator[Path]:
    """Yields the reports, rejected lines of items, and logs of runs, workers and private servers."""
    yield from (config.data_dir / "reports").rglob("*.html")
    yield from (config.data_dir / "jobs").glob("*.bad-lines.jsonl")
    yield from config.state_dir.glob("worker.log*")
    yield from config.state_dir.glob("*/server.log*")
    for log in filter(None, database["runs"].distinct("log")):
        if Path(log).is_file():
            yield Path(log)


def _blot_out(path: Path, expression: re.Pattern[bytes]) -> None:
    """Overwrites the names in place, with the same length, because another process may append. Raises OSError."""
    if path.parent.name == "reports":
        path.unlink()  # the drawing shows more than names, and can be made again
        return
    with path.open("r+b") as file:
        for match in list(expression.finditer(file.read())):
            file.seek(match.start())
            file.write(b"x" * len(match[0]))
