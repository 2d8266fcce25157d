"""feedparser's corpus: what each of its files says that should be read of it, as far as harvester keeps it."""

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harvester.exceptions import ParseError
from harvester.items import Provenance, Reject
from harvester.items.feed import Feed, FeedEntry
from harvester.parsers.markup import text_of_html
from harvester.parsers.web.dates import read_date
from harvester.parsers.web.feed import ParsedFeed, parse_feed
from tests.suites.result import Result

NOW = datetime(2026, 11, 1, tzinfo=UTC)
_header = re.compile(r"^Header:\s*([\w-]+):\s*(.*?)\s*$", re.MULTILINE).findall
_expectation = re.compile(
    r"^Expect:\s*(?:not bozo and )?(?:(feed)|entries\[0\])((?:\['\w+'\])+) == (.+?)\s*$", re.MULTILINE
).search
FIELDS = {
    "['title']": "title",
    "['title_detail']['value']": "title",
    "['link']": "page_url",
    "['id']": "id",
    "['guid']": "id",
    "['published_parsed']": "published_at",
    "['updated_parsed']": "updated_at",
    "['modified_parsed']": "updated_at",
    "['issued_parsed']": "published_at",
    "['date_parsed']": "updated_at",
    "['language']": "language",
    "['author']": "authors",
}
"""What is compared: harvester keeps no more, or keeps HTML as it came."""


OTHERWISE = {
    "base/http_entry_id_base": "an id is kept as it stands: it would change when the feed moves",
    "_author_map_author": "an author's address of mail is not added to the name",
    "entities/lang.xml": "HTML 5 gives this entity another character than HTML 4",
    "entities/rang.xml": "likewise",
    "http_content_language": "a header says nothing of what stands in the feed",
}
"""Parts of paths, and why these files go another way. CDF, which no one writes any more, is said to be no feed."""


def feedparser_corpus(folder: Path) -> Iterator[Result]:
    """Each file is read or said to be no feed; and what it expects is compared where harvester has such a field."""
    fates = Result("feedparser's corpus", "files that are read, or said to be no feed")
    parts: dict[str, Result] = {}
    for path in sorted((folder / "tests").rglob("*.xml")):
        body = path.read_bytes()
        text = body[:3000].decode("utf-8", "replace")
        headers = {name.lower(): value for name, value in _header(text)}
        try:
            read = _read(body, headers)
            fates.count(True, path.name)
        except ParseError:
            read = None
            fates.count(True, path.name)
        except Exception as error:  # noqa: BLE001  it is what is counted
            fates.count(False, f"{path.name}: {type(error).__name__}: {error}")
            continue
        expected = _expectation(text)
        if expected and (name := FIELDS.get(expected[2])) and hasattr(Feed if expected[1] else FeedEntry, name):
            what = f"{'feed' if expected[1] else 'entry'}: {name}"
            result = parts.setdefault(what, Result("feedparser's corpus", what, is_required=False))
            _compare(result, path, read, bool(expected[1]), name, expected[3])
    yield fates
    yield _dates(folder / "tests" / "test_date_parsers.py")
    yield from (parts[what] for what in sorted(parts))


def _dates(path: Path) -> Result:
    """A date that is read must be the same instant. One that could mean several, or is none, is withheld."""
    result = Result("feedparser's corpus", "dates of its tests, read as the same instant or withheld")
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Tuple) and len(node.elts) == 3 and isinstance(node.elts[0], ast.Name):
            try:
                text, expected = (ast.literal_eval(each) for each in node.elts[1:])
            except ValueError:
                continue
            found = read_date(text, NOW).at
            same = (found and found.timetuple()[:6]) == (expected and expected[:6])
            result.count(same, f"{text!r}: expected {expected}, read {found}", is_chosen=found is None)
    return result


def _read(body: bytes, headers: dict[str, str]) -> ParsedFeed:
    place = headers.get("content-location", "http://127.0.0.1:8097/feed.xml")
    return parse_feed(body, place, headers.get("content-type", ""), Provenance(place, NOW, "feeds"))


def _compare(result: Result, path: Path, read: ParsedFeed | None, is_of_feed: bool, name: str, expected: str) -> None:
    try:
        value = ast.literal_eval(expected)
    except (ValueError, SyntaxError):
        return
    found: Any = read and (read.feed if is_of_feed else read.entries and read.entries[0])
    has = "" if not found or isinstance(found, Reject) else getattr(found, name, "")
    said = f"{path.parent.name}/{path.name}: expected {value!r}, read {has!r}"
    is_chosen = read is None or any(part in path.as_posix() for part in OTHERWISE)
    result.count(_plain(has) in (_plain(value), _plain(_read_html(value))), said, is_chosen=is_chosen)


def _read_html(value: Any) -> Any:
    return text_of_html(value, every=True) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timetuple()[:6]
    if isinstance(value, tuple):
        return value[:6] if value and isinstance(value[0], int) else " ".join(value)
    return " ".join((value or "").split())
