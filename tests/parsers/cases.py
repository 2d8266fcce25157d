"""The saved pages, and what is read from each, in a form that can be written down."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harvester.items import Provenance, Record, Reject
from harvester.items.bluesky import Like, Repost
from harvester.parsers.bluesky import repository
from harvester.parsers.bluesky import responses as parse
from harvester.parsers.bluesky.views import Parsed

PAGES = Path(__file__).parent / "pages"
PROVENANCE = Provenance("https://api.example/xrpc", datetime(2025, 1, 1, tzinfo=UTC), "bluesky", "bluesky-0")


class Read(NamedTuple):
    """What was read from a page."""

    records: list[Record]
    rejects: list[Reject]
    rest: dict[str, Any]


Reader = Callable[[bytes], Read]


def _plain(parser: Callable[[bytes, Provenance], Parsed]) -> Reader:
    def read(body: bytes) -> Read:
        parsed = parser(body, PROVENANCE)
        return Read(parsed.records, parsed.rejects, {"cursor": parsed.cursor})

    return read


def _graph(body: bytes) -> Read:
    parsed, members = parse.parse_graph(body, PROVENANCE)
    return Read(parsed.records, parsed.rejects, {"cursor": parsed.cursor, "members": members})


def _thread(body: bytes) -> Read:
    tree = parse.parse_thread(body, PROVENANCE)
    return Read(tree.posts, tree.rejects, {"not_found": tree.not_found, "blocked": tree.blocked, "cut": tree.cut})


def _edges(kind: type[Repost] | type[Like]) -> Reader:
    def read(body: bytes) -> Read:
        rows, cursor = repository.parse_list_records(body, "did:plc:ann", f"app.bsky.feed.{kind.KIND}")
        parsed = repository.parse_edges(kind, rows, PROVENANCE)
        times = [repository.created_at(row.value) for row in rows]
        return Read(parsed.records, parsed.rejects, {"cursor": cursor, "created_at": times})

    return read


READERS: dict[str, Reader] = {
    "followers": _graph,
    "follows": _graph,
    "profile": _plain(parse.parse_profile),
    "profiles": _plain(parse.parse_profiles),
    "feed": _plain(parse.parse_feed),
    "embeds": _plain(parse.parse_posts),
    "quotes": _plain(parse.parse_posts),
    "thread": _thread,
    "lists": _plain(parse.parse_lists),
    "starter_packs": _plain(parse.parse_lists),
    "list": _plain(parse.parse_list_items),
    "likes": _edges(Like),
    "reposts": _edges(Repost),
}
"""Saved page -> how it is read."""


def page(name: str) -> bytes:
    return (PAGES / f"{name}.json").read_bytes()


def found(name: str) -> Read:
    """What is read from a saved page."""
    return READERS[name](page(name))


def expected_file(name: str) -> Path:
    return PAGES / f"{name}.expected.json"


_NAMED = re.compile(r"`[^`]+`|'[^']+'|\w+: \w+")
"""What the reason of a reject names: values, types and fields."""


def written(name: str) -> str:
    """What is read from a page, as it is written down."""
    records, rejects, rest = found(name)
    shown = {
        "records": [_shown(record) for record in records],
        "rejects": [
            {"kind": reject.kind, "named": _NAMED.findall(reject.reason), "key": reject.key} for reject in rejects
        ],
    }
    return msgspec.json.format(msgspec.json.encode(shown | rest), indent=1).decode() + "\n"


def _shown(record: Record) -> dict[str, Any]:
    """Kind and document; `raw` only where something was taken out of it."""
    document = record.to_document()
    assert document.pop("provenance")["url"] == PROVENANCE.url
    raw = {"raw": msgspec.Raw(record.raw)} if b'"purged"' in record.raw else {}
    return {"kind": record.KIND} | document | raw
