"""Takes back what was kept of accounts for a job before it was known that they do not want to be collected.

A label is in every view of an account. A declaration of user intents is asked for once, when it is the account's
turn; other accounts' lists, feeds and threads may have shown it before.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

from filelock import FileLock
from pymongo.database import Database

from harvester.config import Config
from harvester.items import RECORDS
from harvester.items.bluesky import BlueskyRecord, Follow, Post, Profile
from harvester.jobs.documents import JOBS
from harvester.parsers.bluesky.scrub import PURGED, scrub
from harvester.privacy.purge import QUOTES, is_nobodys
from harvester.stores.objects import open_store
from harvester.stores.private_files import make_closed
from harvester.stores.staging import SUFFIX, read_segment, rewrite_segment

Document = dict[str, Any]

BULK_DATASET = "bulkDataset"
"""The declared intent that speaks of what harvester does."""
REFUSING = {"intents.bulkDataset": False}
"""Selects the profiles whose accounts declared it not to be wanted."""

_REMOVED = [kind for kind in RECORDS.values() if issubclass(kind, BlueskyRecord) and kind not in (Profile, Follow)]
"""Of a refusing account the stub of its profile stays, and edges that other accounts' lists show."""
_dids = re.compile(rb"did:[a-z]+:[A-Za-z0-9._:%-]+").findall


def refusing(database: Database[Document]) -> set[str]:
    """The accounts that are known to have declared that they do not want to be collected."""
    return {row["_id"] for row in database[Profile.COLLECTION].find(REFUSING, {"_id": 1})}


def take_back(database: Database[Document], config: Config, spider: str, job: str) -> Counter[str]:
    """Removes what was kept of refusing accounts for `job`: records, quotes of them, pictures, staged lines.

    Returns kind (and `quote`, `picture`) -> how many were removed. What was kept for other jobs stays. Doing it again
    does no harm. To be called when the run's segments are closed. Raises PyMongoError and StorageError.
    """
    removed: Counter[str] = Counter()
    dids = refusing(database)
    if not dids:
        return removed
    theirs = {"provenance.crawl": job, "did": {"$in": list(dids)}}
    pictured = database[Post.COLLECTION].distinct("did", theirs)
    with_pictures = database[Post.COLLECTION].find(theirs | {"media_paths": {"$exists": True}}, {"media_paths": 1})
    removed["picture"] = sum(len(post["media_paths"]) for post in with_pictures)
    for kind in _REMOVED:
        removed[kind.KIND] = database[kind.COLLECTION].delete_many(theirs).deleted_count
    for key, emptied in list(_emptied_posts(database, job, dids)):
        database[Post.COLLECTION].update_one({"_id": key}, {"$set": emptied})
        removed["quote"] += 1
    for did in pictured:
        if not database[Post.COLLECTION].count_documents({"did": did}, limit=1):
            open_store(config.images_location).remove(did)
    make_closed(config.data_dir)
    with FileLock(config.data_dir / ".taking-back.lock"):  # processes that share a job and a folder end together
        for segment in _segments(database, config.data_dir, spider, job):
            if any(without(line, dids, job) != line for line in read_segment(segment)):
                rewrite_segment(segment, lambda line: without(line, dids, job))
    return +removed


def without(line: bytes, dids: set[str], job: str) -> bytes | None:
    """A staged or rejected line of `job` without what it shows of these accounts; None when all of it is theirs."""
    shown = dids.intersection(did.decode() for did in _dids(line))
    if not shown:
        return line
    staged = json.loads(line)
    if staged.get("crawl", job) != job or is_nobodys(staged):
        return line
    owner = staged.get("did") or str(staged["key"]).removeprefix("at://").partition("/")[0]
    if owner in dids and staged["kind"] != Follow.KIND:
        return None
    raw, changed = staged["raw"], False
    if isinstance(raw, str):  # what a service sent was no JSON
        raw, changed = PURGED, raw != PURGED
    for did in shown:
        raw, emptied = scrub(raw, did)
        changed = changed or emptied
    return json.dumps(staged | {"raw": raw}, separators=(",", ":")).encode() if changed else line


def _emptied_posts(database: Database[Document], job: str, dids: set[str]) -> Iterator[tuple[str, Document]]:
    """Posts that quote refusing accounts, and those of their fields that change."""
    holding = [{f"{path}.did": {"$in": list(dids)}, f"{path}.kind": {"$ne": "opted_out"}} for path in QUOTES]
    rows = database[Post.COLLECTION].find(
        {"provenance.crawl": job, "$or": holding}, {"embed": 1, "media_urls": 1}, batch_size=500
    )
    for row in rows:
        key = row.pop("_id")
        for did in dids.intersection(_quoted(row["embed"])):
            row, _ = scrub(row, did)
        quote = row["embed"].get("quote")
        while quote:
            quote["kind"] = "opted_out" if quote["kind"] == PURGED and quote["did"] in dids else quote["kind"]
            quote = quote.get("embed", {}).get("quote")
        yield key, row


def _quoted(embed: Document) -> Iterator[str]:
    while quote := embed.get("quote"):
        if "did" in quote:
            yield quote["did"]
        embed = quote.get("embed", {})


def _segments(database: Database[Document], data_dir: Path, spider: str, job: str) -> Iterator[Path]:
    """Those that may hold lines of the job."""
    document = database[JOBS].find_one({"_id": job})
    since = document["created_at"].astimezone(UTC).date().isoformat() if document else ""
    for folder in ("staging", "rejects"):
        for segment in sorted((data_dir / folder / spider).glob(f"*/*/*{SUFFIX}")):
            if segment.parent.name >= since:
                yield segment
