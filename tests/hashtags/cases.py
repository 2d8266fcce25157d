"""The saved pages of sources of trends, and what is read from each, in a form that can be written down.

`python -m tests.hashtags.cases` writes it down: read the difference by eye.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from harvester.items import Provenance, Record
from harvester.parsers.hashtags import bluesky, google, instagram, mastodon, tiktok, youtube
from harvester.parsers.hashtags.rows import ParsedTrends, VisitContext

PAGES = Path(__file__).parent / "pages"
SEEN = Provenance(
    "https://source.example/asked?q=Cats", datetime(2026, 11, 25, 8, 30, tzinfo=UTC), "hashtags", "hashtags-0"
)
AT = datetime(2026, 11, 25, 8, tzinfo=UTC)


def look(source: str, region: str, period: str = "1d") -> VisitContext:
    return VisitContext(source, region, period, AT, SEEN)


READERS: dict[str, Callable[[bytes], ParsedTrends]] = {
    "google.xml": lambda body: google.parse_rss(body, look("google", "US")),
    "mastodon_trends.json": lambda body: mastodon.parse_trends(body, look("mastodon", "one.example")),
    "mastodon_timeline.json": lambda body: mastodon.parse_timeline(body, SEEN, honour_opt_outs=True).read,
    "bluesky_trends.json": lambda body: bluesky.parse_trends(body, look("bluesky", "world")),
    "tiktok_list.json": lambda body: tiktok.parse_list(body, look("tiktok", "US", "7d")).read,
    "tiktok_page.html": lambda body: tiktok.parse_page(body, look("tiktok", "US", "7d")),
    "instagram_search.json": lambda body: ParsedTrends(
        [instagram.parse_search(body, look("instagram", "-"), "Cats")], [], 1
    ),
    "instagram_media.json": lambda body: instagram.parse_media(body, SEEN),
    "youtube_popular.json": lambda body: youtube.parse_popular(body, look("youtube", "US"), 1),
    "youtube_search.json": lambda body: youtube.parse_found(body, SEEN),
}
"""Saved page -> how it is read."""


def page(name: str) -> bytes:
    return (PAGES / name).read_bytes()


def expected_file(name: str) -> Path:
    return PAGES / f"{name.partition('.')[0]}.expected.json"


_NAMED = re.compile(r"`[^`]+`|\w+$")
"""What the reason of a reject names: types, or the field that it lacks."""


def written(name: str) -> str:
    """What is read from a page, as it is written down."""
    read = READERS[name](page(name))
    shown = {
        "rows": read.rows,
        "records": [_shown(record) for record in read.records],
        "rejects": [{"kind": reject.kind, "named": _NAMED.findall(reject.reason)} for reject in read.rejects],
    }
    return msgspec.json.format(msgspec.json.encode(shown), indent=1).decode() + "\n"


def _shown(record: Record) -> dict[str, Any]:
    document = record.to_document()
    assert document.pop("provenance")["url"] == SEEN.url
    return {"kind": record.KIND} | document


if __name__ == "__main__":
    for each in READERS:
        expected_file(each).write_text(written(each), "utf-8")
