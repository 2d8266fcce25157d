"""Reads staged lines of Bluesky back to records, as far as the line holds the data of the page."""

from urllib.parse import parse_qs, urlsplit

from msgspec import Raw
from msgspec.structs import replace

from harvester.exceptions import InvalidRecordError
from harvester.items import Provenance, Record
from harvester.items.bluesky import AccountList, Follow, Like, ListItem, Post, Profile, Repost
from harvester.parsers.bluesky import views, wire
from harvester.parsers.bluesky.repository import RepoRecord, parse_edges
from harvester.parsers.json_values import string


def read_staged(kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
    """Returns the record of a line; None for an unknown kind of line. Raises views.BAD for an unreadable line."""
    part = Raw(raw)
    match kind:
        case Profile.KIND:
            return views.profile(part, provenance)
        case Post.KIND:
            return views.post(part, provenance)
        case AccountList.KIND:
            return views.account_list(part, provenance)
        case Follow.KIND:
            did, subject = key.split(" ")
            return Follow(did=did, subject_did=subject, provenance=provenance, raw=raw)
        case ListItem.KIND:
            return _list_item(part, provenance)
        case Like.KIND:
            return _edge(Like, RepoRecord(key, "", raw), provenance)
        case Repost.KIND if b'"by"' in raw:
            reason = wire.decode_reason(raw)
            if not isinstance(reason, wire.Reason):
                raise InvalidRecordError(f"repost: {key} was read from no repost")
            return views.repost(reason, key.split(" ")[1], part, provenance)
        case Repost.KIND:
            did = key.split(" ")[0]
            of_repository = RepoRecord(f"at://{did}/app.bsky.feed.repost/unknown", "", raw)
            return replace(_edge(Repost, of_repository, provenance), uri=None)
    return None


def _list_item(part: Raw, provenance: Provenance) -> ListItem:
    """Returns a member of a list. The list is named by the requested address, the member by a DID in the line.

    A member who refuses logged-out visitors keeps that DID in the line.
    """
    view = wire.decode_any(part)
    of = parse_qs(urlsplit(provenance.url).query).get("list", [""])[0]
    return ListItem(
        did=wire.did_of(of),
        provenance=provenance,
        raw=bytes(part),
        uri=string(view, "uri") or "",
        list_uri=of,
        subject_did=string(view, "subject", "did") or "",
    )


def _edge(kind: type[Like] | type[Repost], row: RepoRecord, provenance: Provenance) -> Record:
    parsed = parse_edges(kind, [row], provenance)
    if parsed.rejects:
        raise InvalidRecordError(parsed.rejects[0].reason)
    return parsed.records[0]
