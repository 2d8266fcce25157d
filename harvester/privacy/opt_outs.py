"""Removes data of accounts that was stored before their opt-out was known.

A label is in every view of an account, but may be new. A declaration of user intents is requested once, when the
account is visited, and lists, feeds and threads of other accounts may have shown the account before. So opt-outs are
stored in MongoDB for all processes and later runs: when a run is killed, the next one does its work.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Set
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock
from pymongo import DeleteOne, UpdateOne
from pymongo.database import Database

from harvester.config import Config
from harvester.exceptions import StorageError
from harvester.items import RECORDS
from harvester.items.bluesky import BlueskyRecord, Follow, Post, Profile
from harvester.jobs.documents import JOBS
from harvester.parsers.bluesky.refusals import NO_UNAUTHENTICATED
from harvester.parsers.bluesky.scrub import OPTED_OUT, PURGED, scrub
from harvester.privacy import OPT_OUTS
from harvester.privacy.lines import emptied, read_line, written
from harvester.privacy.purge import QUOTES, is_nobodys
from harvester.stores.objects import open_store
from harvester.stores.private_files import make_closed
from harvester.stores.staging import SUFFIX, read_segment, recover, rewrite_segment

Document = dict[str, Any]
Declared = tuple[str, ...]
"""The account's declarations against being collected, as in `opt_outs` of records."""


class KnownOptOut(NamedTuple):
    """The opt-out of an account."""

    declared: Declared
    seen_at: datetime
    """Time when the page with the opt-out was fetched."""


BULK_DATASET = "bulkDataset"
"""The declared intent that covers what harvester does."""
BY_LABEL: Declared = (NO_UNAUTHENTICATED,)
"""Opt-out of an account whose every view has the label."""
UNKNOWN: Declared = ("declaration unknown",)
"""Opt-out of a new account whose server does not return its declaration."""
MOST_TOGETHER = 100_000
"""Maximum number of accounts in a query; MongoDB limits a query to 16 MB."""
LATE = timedelta(minutes=1)
"""Time from an account's `known_at` until other processes see it, at most."""

_REMOVED = [kind for kind in RECORDS.values() if issubclass(kind, BlueskyRecord) and kind not in (Profile, Follow)]
"""Kinds to remove. A stub of the profile stays, and so do the edges that other accounts' lists show."""
_IN_STUB = {"did", "handle", "opt_outs", "intents", "provenance"}
_NOT_IN_STUB = [name for name in Profile.__struct_fields__ if name not in _IN_STUB]
_dids = re.compile(rb"did:[a-z]+:[A-Za-z0-9._:%-]+").findall


def writes_of(known: Mapping[str, KnownOptOut], withdrawn: Collection[str]) -> list[UpdateOne | DeleteOne]:
    """Returns the writes to OPT_OUTS for new and for withdrawn opt-outs."""
    at = {"known_at": {"$ifNull": ["$known_at", "$$NOW"]}}
    changes: list[UpdateOne | DeleteOne] = [DeleteOne({"_id": did}) for did in withdrawn]
    for did, (declared, seen_at) in known.items():
        said = {"declared": {"$literal": list(declared)}, "seen_at": seen_at}
        changes.append(UpdateOne({"_id": did}, [{"$set": said | at}], upsert=True))
    return changes


class TakenBack(NamedTuple):
    """The numbers of removed things by kind, including `quote` and `picture`."""

    removed: Counter[str]
    of_run: Counter[str]
    """The part that was stored for the jobs of the run."""


def take_back(database: Database[Document], config: Config, spider: str, jobs: Collection[str] = ()) -> TakenBack:
    """Removes the data of accounts that opted out: records, quotes, pictures, and staged lines of the spider.

    `jobs` are the run's, if it has begun. Data of jobs that ignore opt-outs stays. First completes the segments of
    killed runs, not of running ones. Repeating it does no harm. Raises PyMongoError, and StorageError when a part
    cannot be removed; all others are removed then.
    """
    taken = TakenBack(Counter(), Counter())
    at = database.command("hello", codec_options=database.codec_options)["localTime"]
    known = {row["_id"]: row for row in database[OPT_OUTS].find()}
    keeping = [row["_id"] for row in database[JOBS].find({"arguments.honour_opt_outs": False}, {"_id": 1})]
    dids = sorted(known)
    for first in range(0, len(dids), MOST_TOGETHER):
        _take_back_records(database, config, known, dids[first : first + MOST_TOGETHER], keeping, jobs, taken)
    try:
        make_closed(config.data_dir)
        with FileLock(config.data_dir / ".taking-back.lock"):  # processes that share a folder take turns
            problems = _clean_folder(database, config, spider, at, known, keeping)
    except OSError as error:
        raise StorageError(f"{config.data_dir} cannot be written: {error.strerror or error}.") from error
    if problems:
        raise StorageError("\n".join(["All was removed but for this; mend it, or remove it:", *problems]))
    return TakenBack(+taken.removed, +taken.of_run)


def _clean_folder(
    database: Database[Document],
    config: Config,
    spider: str,
    at: datetime,
    known: Mapping[str, Document],
    keeping: list[str],
) -> list[str]:
    """Cleans the staged and rejected lines of the spider; `known` are the opt-outs so far. Returns the problems."""
    progress = _Progress(config.data_dir, f"{database.name}/{spider}")
    new = {did for did, row in known.items() if progress.at is None or row["known_at"] >= progress.at - LATE}
    seen, problems = list[str](), list[str]()
    for segment in _segments(config.data_dir, spider):
        name = segment.relative_to(config.data_dir).as_posix()
        try:
            _clean(segment, new if name in progress.segments else known.keys(), keeping, database, config)
            seen.append(name)
        except StorageError as error:
            problems.append(f"  {error}")
    progress.write(at, seen)
    return problems


class _Progress:
    """The time of the last search of a data folder, and its segments, so that large folders are not read each time."""

    def __init__(self, folder: Path, key: str) -> None:
        self._path = folder / ".taken-back.json"
        self._key = key
        try:
            self._all: Document = json.loads(self._path.read_bytes())
        except (OSError, ValueError):  # missing, or cut short by a power failure: everything is searched
            self._all = {}
        own = self._all.get(key, {})
        self.at = datetime.fromisoformat(own["at"]) if own else None
        self.segments = set(own.get("segments", ()))

    def write(self, at: datetime, segments: list[str]) -> None:
        """Writes the progress. Raises OSError."""
        self._all[self._key] = {"at": at.isoformat(), "segments": segments}
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._all))
        temporary.replace(self._path)


def _take_back_records(
    database: Database[Document],
    config: Config,
    known: Mapping[str, Document],
    dids: list[str],
    keeping: list[str],
    jobs: Collection[str],
    taken: TakenBack,
) -> None:
    kept_for = {"provenance.crawl": {"$nin": keeping}}
    theirs = {"did": {"$in": dids}} | kept_for
    accounts = {"_id": {"$in": dids}} | kept_for
    pictured = {"media_paths": {"$exists": True}}
    posts, profiles = database[Post.COLLECTION], database[Profile.COLLECTION]
    for did in {*posts.distinct("did", theirs | pictured), *profiles.distinct("_id", accounts | pictured)}:
        _remove_pictures(database, config, did, keeping)  # before the records that name them
    of_run = theirs | {"provenance.crawl": {"$in": sorted(set(jobs) - set(keeping))}}
    for which, counts in ((of_run, (taken.removed, taken.of_run)), (theirs, (taken.removed,))):
        pictures = sum(len(post["media_paths"]) for post in posts.find(which | pictured, {"media_paths": 1}))
        removed = {kind.KIND: database[kind.COLLECTION].delete_many(which).deleted_count for kind in _REMOVED}
        for count in counts:
            count.update(removed | {"picture": pictures})
    whole = accounts | {"$or": [{name: {"$exists": True}} for name in _NOT_IN_STUB]}
    profiles.update_many(whole, {"$unset": dict.fromkeys(_NOT_IN_STUB, "")})  # counted as `stubbed` where it was seen
    for declared in {tuple(known[did]["declared"]) for did in dids}:
        theirs_too = [did for did in dids if tuple(known[did]["declared"]) == declared]
        silent = accounts | {"_id": {"$in": theirs_too}, "opt_outs.0": {"$exists": False}}
        profiles.update_many(silent, {"$set": {"opt_outs": list(declared)}})
    for key, left in list(_emptied_posts(database, kept_for, set(dids))):
        posts.update_one({"_id": key}, {"$set": left})
        taken.removed["quote"] += 1


def _remove_pictures(database: Database[Document], config: Config, did: str, keeping: list[str]) -> None:
    """Removes an account's pictures, unless a job that ignores opt-outs has some."""
    others = {"provenance.crawl": {"$in": keeping}, "media_paths": {"$exists": True}}
    of_account = (Post, {"did": did}), (Profile, {"_id": did})
    if not any(database[kind.COLLECTION].find_one(others | own, {"_id": 1}) for kind, own in of_account):
        open_store(config.images_location).remove(did)


def _clean(segment: Path, dids: Set[str], keeping: list[str], database: Database[Document], config: Config) -> None:
    """Cleans a segment. Raises StorageError."""
    changes, owners = False, set[str]()
    for line in read_segment(segment) if dids else ():
        left = without(line, dids, keeping)
        changes = changes or left != line
        if left is None:
            owners.add(_owner_of(read_line(line)))
    for did in owners & dids:  # a killed run may have stored pictures without a record in MongoDB
        _remove_pictures(database, config, did, keeping)
    if changes:
        rewrite_segment(segment, lambda line: without(line, dids, keeping))


def without(line: bytes, dids: Set[str], keeping: Collection[str] = ()) -> bytes | None:
    """Returns a staged or rejected line without the accounts' content; None when all is theirs.

    Lines of the jobs in `keeping` stay unchanged.
    """
    shown = dids & {did.decode() for did in _dids(line)}
    if not shown:
        return line
    staged = read_line(line)
    if staged.get("crawl") in keeping or is_nobodys(staged):
        return line
    if _owner_of(staged) in dids and staged["kind"] != Follow.KIND:
        return None
    raw, changed = emptied(staged["raw"], shown)
    return written(staged | {"raw": raw}) if changed else line


def _owner_of(staged: Document) -> str:
    return staged.get("did") or str(staged["key"]).removeprefix("at://").partition("/")[0]


def _emptied_posts(database: Database[Document], kept_for: Document, dids: Set[str]) -> Iterator[tuple[str, Document]]:
    """Yields posts with the accounts' content, and the changed fields."""
    quoting = {"$in": list(dids)}
    holding: list[Document] = [{f"{path}.did": quoting, f"{path}.kind": {"$ne": OPTED_OUT}} for path in QUOTES]
    holding.append({"embed.unknown.0": {"$exists": True}})
    rows = database[Post.COLLECTION].find(kept_for | {"$or": holding}, {"embed": 1, "media_urls": 1}, batch_size=500)
    for row in rows:
        key, changed = row.pop("_id"), False
        for did in dids & {did.decode() for did in _dids(json.dumps(row, default=str).encode())}:
            row, found = scrub(row, did)
            changed = changed or found
        quote = row["embed"].get("quote")
        while quote:
            quote["kind"] = OPTED_OUT if quote["kind"] == PURGED and quote.get("did") in dids else quote["kind"]
            quote = quote.get("embed", {}).get("quote")
        if changed:
            yield key, row


def _segments(data_dir: Path, spider: str) -> Iterator[Path]:
    for folder in ("staging", "rejects"):
        recover(data_dir / folder / spider)
        yield from sorted((data_dir / folder / spider).glob(f"*/*/*{SUFFIX}"))
