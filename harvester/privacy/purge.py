"""Removes all data of an account, with its names, and stores that it must not be fetched again.

The account is stored as purged first, so that a second purge completes a killed one.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pymongo.collation import Collation
from pymongo.database import Database

from harvester.config import Config
from harvester.exceptions import StorageError, UsageError
from harvester.items import RECORDS, Record
from harvester.items.bluesky import Post, Profile, is_did
from harvester.items.trend import TaggedPost, Trend
from harvester.jobs.documents import ITEMS, JOBS, SCHEDULES
from harvester.parsers.bluesky.scrub import PURGED, scrub
from harvester.privacy import OPT_OUTS
from harvester.privacy.lines import emptied, read_line, written
from harvester.privacy.traces import Names, remove_traces
from harvester.publish.distribution import DELIVERIES
from harvester.stores.objects import open_store
from harvester.stores.staging import OPEN, SUFFIX, read_segment, recover, rewrite_segment

Document = dict[str, Any]

QUOTES = ("embed.quote", "embed.quote.embed.quote", "embed.quote.embed.quote.embed.quote")
"""Paths of the quotes in a stored post."""
ANY_CASE = Collation("en", strength=2)
"""Collation that compares handles."""


class PurgedAccount(NamedTuple):
    """An account to purge."""

    id: str
    """DID, or for other sites the `author` that its posts have."""
    handle: str
    """Empty if it is unknown or missing."""


class Findings(NamedTuple):
    """The stored data of an account."""

    counts: Counter[str]
    """Collection, `quotes`, `pictures`, `staged lines` or `emptied lines` -> number."""
    segments: list[Path]
    """Segments with data of the account."""
    being_written: list[Path]
    """Segments of running crawls, which other processes must not read."""
    unreadable: list[StorageError]


def resolve(database: Database[Document], account: str) -> PurgedAccount:
    """Returns the account for a DID, or for a known handle or author. Raises UsageError.

    A DID without stored data is valid too, because an account can be purged before harvester meets it.
    """
    account = account.strip().removeprefix("@")
    by_did = is_did(account) is not None
    if account.startswith("did:") and not by_did:
        raise UsageError(f"--account: {account!r} is not a DID.")
    found: dict[str, str] = {}
    for name in (PURGED, Profile.COLLECTION):
        query = database[name].find({"_id": account} if by_did else {"handle": account}, {"handle": 1})
        found |= {row["_id"]: row.get("handle", "") for row in query.collation(ANY_CASE)}
    if by_did:
        return PurgedAccount(account, found.get(account, ""))
    if account.lower() == "handle.invalid" or len(found) > 1:
        raise UsageError(f"--account: {account} may be any of several accounts; give the DID instead of the handle.")
    if not found and _is_owner(database, account):
        return PurgedAccount(account, "")
    if not found:
        raise UsageError(
            f"--account: no account with the handle {account!r} was harvested; give its DID (did:plc:...), or the"
            " `author` of its posts as the database has it."
        )
    return PurgedAccount(*found.popitem())


def _is_owner(database: Database[Document], account: str) -> bool:
    """Returns True if the account has stored data, or was purged."""
    kept = (database[kind.COLLECTION].find_one(_owned(kind, account), {"_id": 1}) for kind in _owned_kinds())
    return any(kept) or database[PURGED].find_one({"_id": account}) is not None


def find(database: Database[Document], config: Config, account: str) -> Findings:
    """Finds the stored data of an account. Completes the segments of killed runs first. Raises StorageError."""
    counts: Counter[str] = Counter()
    for kind in _owned_kinds():
        counts[kind.COLLECTION] = database[kind.COLLECTION].count_documents(_owned(kind, account))
    counts["quotes"] = sum(1 for _ in _posts_to_empty(database, account))
    counts["pictures"] = len(open_store(config.images_location).files_of(account))
    findings = Findings(counts, [], [], [])
    for root in _staged(config):
        recover(root)
        findings.being_written.extend(root.rglob(f"*{SUFFIX}{OPEN}"))
        for segment in sorted(root.rglob(f"*{SUFFIX}")):
            try:
                _look_through(segment, account, findings)
            except StorageError as error:
                findings.unreadable.append(error)
    return findings


def purge(database: Database[Document], config: Config, account: PurgedAccount, findings: Findings) -> None:
    """Removes the findings. Raises StorageError when a part cannot be removed; all others are removed then."""
    name = account.id
    first = {"purged_at": datetime.now(UTC), "counts": dict(+findings.counts)}
    remembered = {"$setOnInsert": first} | ({"$set": {"handle": account.handle}} if account.handle else {})
    database[PURGED].update_one({"_id": name}, remembered, upsert=True)
    problems = list(findings.unreadable)
    try:
        open_store(config.images_location).remove(name)
    except StorageError as error:
        problems.append(error)
    for kind in _owned_kinds():
        database[kind.COLLECTION].delete_many(_owned(kind, name))
    database[OPT_OUTS].delete_one({"_id": name})
    for key, left in list(_posts_to_empty(database, name)):
        database[Post.COLLECTION].update_one({"_id": key}, {"$set": left})
    named = re.escape(name) + "(?![A-Za-z0-9._:%-])"
    database[DELIVERIES].delete_many({"key": {"$regex": f"(?:^|[ /]){named}"}})  # deliveries of removed records
    _remove_items(database, account)
    for segment in findings.segments:
        try:
            rewrite_segment(segment, lambda line: without(line, name))
        except StorageError as error:
            problems.append(error)
    problems += remove_traces(database, config, Names.of(name, account.handle))
    if problems:
        sentences = "\n".join(f"  {problem}" for problem in problems)
        raise StorageError(f"Of {name} all was removed but for this; mend it and purge again:\n{sentences}")


def schedules_of(database: Database[Document], account: PurgedAccount) -> list[str]:
    """Returns the names of the schedules that have the account in their arguments. They stay unchanged, because a
    person wants them."""
    names = Names.of(account.id, account.handle)
    rows = database[SCHEDULES].find({}, {"arguments": 1}).sort("_id", 1)
    return [row["_id"] for row in rows if names.left_out(row["arguments"]) != row["arguments"]]


def undo(database: Database[Document], account: str) -> PurgedAccount:
    """Removes the purge mark from an account. Raises UsageError when it was not purged."""
    name = account.strip().removeprefix("@")
    rows = database[PURGED]
    found = list(rows.find({"_id": name}, {"handle": 1}))
    found = found or list(rows.find({"handle": name}, {"handle": 1}).collation(ANY_CASE))
    if not found:
        raise UsageError(f"--undo: {name!r} was not purged; `harvester purge --list` shows who was.")
    if len(found) > 1:
        raise UsageError(f"--undo: {name} may be any of several accounts; give the DID instead of the handle.")
    database[PURGED].delete_one({"_id": found[0]["_id"]})
    return PurgedAccount(found[0]["_id"], found[0].get("handle", ""))


def purged(database: Database[Document]) -> list[Document]:
    """Returns the purged accounts, the latest first: _id, handle, purged_at, counts."""
    return list(database[PURGED].find().sort("purged_at", -1))


def without(line: bytes, account: str) -> bytes | None:
    """Returns a staged or rejected line without the account's content; None when all is the account's."""
    if not any(name.encode() in line for name in _spellings(account)):
        return line
    staged = read_line(line)
    if is_nobodys(staged):
        return line
    raw = staged.get("raw")
    if account in _accounts_of(staged, raw):
        return None
    raw, changed = emptied(raw, [account])
    left = staged | {"raw": raw}
    if "url" in staged:
        left["url"] = Names.of(account).left_out(staged["url"])
        changed = changed or left["url"] != staged["url"]
    return written(left) if changed else line


def _spellings(account: str) -> set[str]:
    """Returns the spellings of an account in a line: percent-encoded, and as different programs write JSON."""
    in_ascii = json.dumps(account)[1:-1]
    return {account, quote(account, safe=""), in_ascii, account.replace("/", r"\/"), in_ascii.replace("/", r"\/")}


def is_nobodys(staged: Document) -> bool:
    """Returns True for a line of a record without an owner. Such a record may name people, but belongs to its site."""
    kind = RECORDS.get(staged.get("kind", ""))
    return kind is not None and not kind.OWNERS


def _accounts_of(staged: Document, raw: Any) -> set[str | None]:
    """Returns the accounts that own the line; for an edge also its target."""
    ends = str(staged.get("key") or "").split(" ")
    accounts = {staged.get("did"), _account_of(ends[0])}
    kind = RECORDS.get(staged.get("kind", ""))
    if kind in (TaggedPost, Trend):
        from harvester.parsers.hashtags.staged import author_of  # with the parsers of all sources

        accounts.add(author_of(raw))
    if kind and len(kind.OWNERS) > 1:
        accounts.update(_account_of(end) for end in ends)
        subject = raw.get("subject") if isinstance(raw, dict) else None
        if isinstance(subject, dict):
            accounts.update(_account_of(subject.get(name)) for name in ("did", "uri"))
        elif subject:
            accounts.add(_account_of(subject))
    return accounts


def _account_of(reference: Any) -> str | None:
    """Returns the DID in a DID or an at:// address."""
    return reference.removeprefix("at://").partition("/")[0] if isinstance(reference, str) else None


def _owned(kind: type[Record], account: str) -> Document:
    """Returns the query for the records of an account, and the edges that lead to it."""
    return {"$or": [{name: account} for name in kind.OWNERS]}


def _owned_kinds() -> list[type[Record]]:
    return [kind for kind in RECORDS.values() if kind.OWNERS]


def _posts_to_empty(database: Database[Document], did: str) -> Iterator[tuple[str, Document]]:
    """Yields posts of others with content of the account, and the changed fields."""
    holding = [{f"{path}.did": did} for path in QUOTES] + [{"embed.unknown.0": {"$exists": True}}]
    rows = database[Post.COLLECTION].find(
        {"$or": holding, "did": {"$ne": did}}, {"embed": 1, "media_urls": 1}, batch_size=500
    )
    for row in rows:
        key = row.pop("_id")
        left, changed = scrub(row, did)
        if changed:
            yield key, left


def _remove_items(database: Database[Document], account: PurgedAccount) -> None:
    """Removes the items for the account, its posts, and its handle as a seed. An attempt under way changes nothing."""
    keys = [account.id, *filter(None, [account.handle.lower()])]
    theirs = {"$or": [{"key": {"$in": keys}}, {"key": {"$regex": f"^at://{re.escape(account.id)}/"}}]}
    jobs = database[ITEMS].distinct("job", theirs)
    database[ITEMS].delete_many(theirs)
    database[JOBS].update_many({"_id": {"$in": jobs}}, {"$unset": {"counted_end": ""}})  # the job is counted again


def _staged(config: Config) -> list[Path]:
    return [config.data_dir / "staging", config.data_dir / "rejects"]


def _look_through(segment: Path, account: str, findings: Findings) -> None:
    removed = changed = 0
    for line in read_segment(segment):
        left = without(line, account)
        removed += left is None
        changed += left is not None and left != line
    if removed or changed:
        findings.segments.append(segment)
        findings.counts.update({"staged lines": removed, "emptied lines": changed})
