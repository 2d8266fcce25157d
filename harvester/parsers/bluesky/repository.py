"""Parses the records in an account's repository, as the account's own server lists them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from harvester.exceptions import ParseError
from harvester.items import Provenance, Record, Reject
from harvester.items.bluesky import Like, Repost
from harvester.parsers.bluesky import views, wire
from harvester.parsers.bluesky.views import Parsed
from harvester.parsers.bluesky.wire import did_of
from harvester.parsers.json_values import date_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_is_tid = re.compile("[2-7a-j][2-7a-z]{12}").fullmatch
_AS_PYTHON = str.maketrans("234567abcdefghijklmnopqrstuvwxyz", "0123456789abcdefghijklmnopqrstuv")


class RepoRecord(NamedTuple):
    """A record in an account's repository. `value` is JSON."""

    uri: str
    cid: str
    value: bytes


def parse_list_records(body: bytes, did: str, collection: str) -> tuple[list[RepoRecord], str | None]:
    """Parses com.atproto.repo.listRecords into records and cursor. Raises ParseError for another account's record."""
    page = wire.read_page(wire.decode_list_records_page, body)
    for row in page.records:
        if not row.uri.startswith(f"at://{did}/{collection}/"):
            raise ParseError(f"the answer holds {row.uri!r}, which is no {collection} of {did}")
    return [RepoRecord(r.uri, r.cid, bytes(r.value)) for r in page.records], page.cursor


def parse_edges(kind: type[Repost] | type[Like], rows: Iterable[RepoRecord], provenance: Provenance) -> Parsed:
    """Parses repost or like records in a repository."""
    records: list[Record] = []
    rejects: list[Reject] = []
    for row in rows:
        try:
            wire.decode_any(row.value)  # msgspec skips numbers without a check, but `raw` keeps them
            value = wire.decode_edge(row.value)
            subject = value.subject.uri
            records.append(
                kind(
                    did=did_of(row.uri),
                    provenance=provenance,
                    raw=row.value,
                    uri=row.uri,
                    subject_uri=subject,
                    subject_did=did_of(subject),
                    created_at=date_time(value.created_at),
                )
            )
        except views.BAD as error:
            rejects.append(views.reject(kind, row.value, provenance, error))
    return Parsed(records, rejects)


def key_time(uri: str) -> datetime | None:
    """Returns the time in the key of a record, if the key is a TID (https://atproto.com/specs/tid)."""
    key = uri.rpartition("/")[2]
    if not _is_tid(key):
        return None
    return _EPOCH + timedelta(microseconds=int(key.translate(_AS_PYTHON), 32) >> 10)


def created_at(value: bytes) -> datetime | None:
    """Returns createdAt of a repository record; None if it is missing or unreadable."""
    try:
        return date_time(wire.decode_created(value).created_at)
    except wire.UNREADABLE:
        return None
