"""Templates for `harvester spiders new`: a spider, its parser and its test. Pure functions."""

import json
from collections.abc import Callable
from datetime import date
from string import Template
from typing import NamedTuple
from urllib.parse import urlsplit

from parsel import Selector

from harvester.exceptions import UsageError

PROJECT = {
    "scrapy.cfg": "[settings]\ndefault = $package.settings\n",
    "$package/__init__.py": "",
    "$package/settings.py": '''"""Scrapy's settings: harvester's add-on, and where the spiders are."""

ADDONS = {"harvester.Addon": 500}
SPIDER_MODULES = ["$package.spiders"]
NEWSPIDER_MODULE = "$package.spiders"
''',
}
"""Files that a project has once: path -> text."""

SPIDER = '''"""The spider `$name`."""

from collections.abc import Iterator
from typing import Any

from harvester.spiders.base import HarvesterSpider
from scrapy.http import Response

from $package.parsers.$name import $record, parse_page


class ${camel}Spider(HarvesterSpider):
    """Reads $host.

    Domain: $host. Caveats: none known. Arguments: none.
    """

    name = "$name"
    start_urls = [$url]

    def parse(self, response: Response, **kwargs: Any) -> Iterator[list[$record]]:
        yield parse_page(response.body, self.provenance(response))
'''

_RECORD = '''class $record(Record, frozen=True, kw_only=True):
    """A page of $host."""

    KIND = "${name}_page"
    COLLECTION = "${name}_pages"
    KEY = ("url",)

    url: str
    $field
'''

HTML_PARSER = f'''"""What pages of $host say: bytes in, records out."""

from harvester.exceptions import ParseError
from harvester.items import Provenance, Record
from parsel import Selector


{_RECORD}

def parse_page(body: bytes, provenance: Provenance) -> list[$record]:
    """Raises ParseError when the page is none that is known."""
    title = Selector(body=body or b" ", encoding="$encoding").css("title::text, h1::text").get("").strip()
    if not title:
        raise ParseError("it has no title")
    return [$record(url=provenance.url, title=title, raw=body, provenance=provenance)]
'''

JSON_PARSER = f'''"""What answers of $host say: bytes in, records out."""

import json

from harvester.exceptions import ParseError
from harvester.items import Provenance, Record


{_RECORD}

def parse_page(body: bytes, provenance: Provenance) -> list[$record]:
    """Raises ParseError when the answer is none that is known."""
    try:
        parts = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"it is no JSON: {{error}}") from None
    if not isinstance(parts, (dict, list)):
        raise ParseError("it is neither an object nor an array")
    return [$record(url=provenance.url, size=len(parts), raw=body, provenance=provenance)]
'''

TEST = '''"""The saved page of `$name` reads as it did when it was saved, on $day."""

from datetime import UTC, datetime
from pathlib import Path

from harvester.items import Provenance

from $package.parsers.$name import parse_page

PAGE = Path(__file__).parent / "pages" / "$saved"
EXPECTED = $expected


def test_the_saved_page_is_read() -> None:
    provenance = Provenance($url, datetime.now(UTC), "$name")
    assert [record.$attribute for record in parse_page(PAGE.read_bytes(), provenance)] == EXPECTED
'''


class StartPage(NamedTuple):
    """The page that a spider begins with."""

    url: str
    body: bytes
    is_json: bool
    encoding: str


class _Kind(NamedTuple):
    """A kind of page: HTML or JSON."""

    parser: str
    field: str
    suffix: str
    expected: Callable[[StartPage], str | int]
    """Returns the value of `field` for a page. Raises UsageError when the parser would find nothing."""


def project(package: str) -> dict[str, bytes]:
    """Returns the files of a new project: path -> content."""
    return {_filled(path, package=package): _filled(text, package=package).encode() for path, text in PROJECT.items()}


def spider(name: str, page: StartPage, package: str, today: date) -> dict[str, bytes]:
    """Returns the files of a new spider: path -> content. Raises UsageError when the page has nothing to begin with."""
    kind = JSON if page.is_json else HTML
    camel = "".join(part.capitalize() for part in name.split("_"))
    values = {
        "name": name,
        "package": package,
        "camel": camel,
        "record": f"{camel}Page",
        "host": urlsplit(page.url).hostname,
        "url": json.dumps(page.url, ensure_ascii=False),
        "encoding": page.encoding,
        "field": kind.field,
        "attribute": kind.field.partition(":")[0],
        "saved": f"{name}.{kind.suffix}",
        "expected": json.dumps([kind.expected(page)], ensure_ascii=False),
        "day": today.isoformat(),
    }
    spider_path, parser_path, page_path, test_path = paths(name, package, kind.suffix)
    return {
        spider_path: _filled(SPIDER, **values).encode(),
        parser_path: _filled(kind.parser, **values).encode(),
        page_path: page.body,
        test_path: _filled(TEST, **values).encode(),
    }


def paths(name: str, package: str, suffix: str) -> tuple[str, str, str, str]:
    """Returns the paths of spider, parser, page and test, below the folder of the project."""
    below = package.replace(".", "/")
    parts = f"{below}/spiders/{name}.py", f"{below}/parsers/{name}.py"
    return (*parts, f"tests/pages/{name}.{suffix}", f"tests/test_{name}.py")


def _filled(template: str, **values: object) -> str:
    return Template(template).substitute(values)


def _title(page: StartPage) -> str:
    # parsel refuses an empty body
    found = Selector(body=page.body or b" ", encoding=page.encoding).css("title::text, h1::text").get("").strip()
    if not found:
        raise UsageError(f"new: {page.url} has no title; give another page of the site.")
    return found


def _size(page: StartPage) -> int:
    try:
        parts = json.loads(page.body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"new: {page.url} says that it is JSON, and is not: {error}.") from None
    if not isinstance(parts, (dict, list)):
        raise UsageError(f"new: {page.url} is neither an object nor an array; give another address.")
    return len(parts)


HTML = _Kind(HTML_PARSER, "title: str", "html", _title)
JSON = _Kind(JSON_PARSER, "size: int", "json", _size)
