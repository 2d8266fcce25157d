"""Feeds real pages to the parsers of counties, as the spiders do: `make real PAGES=FOLDER`.

The folder holds PLATFORM/NAME.html (or .json, .csv) and NAME.expected.json beside it. Prints of each platform the
fields that are right, wrong and missing, and each page that is refused, with its reason.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from scrapy import Request
from scrapy.http import HtmlResponse

from harvester.exceptions import PageFailed, ParseError
from harvester.items import Provenance
from harvester.outcomes.classifier import classify, classify_page
from harvester.outcomes.outcome import OK
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.table import PageRows
from harvester.sites import load_sites
from harvester.spiders.counties.saved import read_saved
from tests.real.compare import MISSING, RIGHT, WRONG, Compared, compare

PLATFORMS = {"qpublic": "beacon"}
"""Names of folders -> the platform whose spider reads their pages, where it is another name."""
URLS = {
    "beacon": "https://beacon.schneidercorp.com/Application.aspx?AppID=1&LayerID=1&PageTypeID=4&KeyValue=1",
    "devnet": "https://county.devnetwedge.com/parcel/view/1",
    "vgsi": "https://gis.vgsi.com/town/Parcel.aspx?pid=1",
}
"""Platform -> address of a page of which none is said."""
KINDS = {".html": b"text/html", ".htm": b"text/html", ".json": b"application/json", ".csv": b"text/csv"}


class Page(NamedTuple):
    """A page of the folder, and what came of it."""

    platform: str
    name: str
    compared: list[Compared]
    refused: str = ""
    """The outcome and its reason; empty: it was read."""
    is_right: bool = True
    """False when a page is refused that should be read, for another reason than expected, or read in place of that."""


def main(folder: str) -> int:
    """Prints the report; 1 when a field is wrong or a page has another fate than expected."""
    pages = [_read(path) for path in sorted(Path(folder).glob("*/*")) if _is_page(path)]
    if not pages:
        print(f"There is no page in {folder}: it should hold PLATFORM/NAME.html with NAME.expected.json.")
        return 2
    for page in pages:
        name = f"{page.platform}/{page.name}"
        if page.refused or not page.is_right:
            fate = f"refused  {page.refused}" if page.refused else "read"
            lost = f" ({len(page.compared)} fields missing)" if page.compared else ""
            print(f"{name}  {'' if page.is_right else 'WRONGLY '}{fate}{lost}")
            continue
        for field, verdict, expected, found in page.compared:
            if verdict != RIGHT:
                print(f"{name}  {verdict}  {field}: {_short(found)}, expected {_short(expected)}")
    print(f"\n{'platform':<10} {'pages':>6} {'refused':>8} {'right':>7} {'wrong':>7} {'missing':>8}")
    for platform in [*dict.fromkeys(page.platform for page in pages), ""]:
        mine = [page for page in pages if platform in ("", page.platform)]
        number = Counter(each.verdict for page in mine for each in page.compared)
        refused = sum(bool(page.refused) for page in mine)
        print(
            f"{platform or 'all':<10} {len(mine):>6} {refused:>8} {number[RIGHT]:>7} {number[WRONG]:>7}"
            f" {number[MISSING]:>8}"
        )
    is_wrong = any(each.verdict == WRONG for page in pages for each in page.compared)
    return int(is_wrong or not all(page.is_right for page in pages))


def _is_page(path: Path) -> bool:
    return path.suffix in KINDS and not path.name.endswith(".expected.json")


def _read(path: Path) -> Page:
    platform = PLATFORMS.get(path.parent.name, path.parent.name)
    beside = path.with_name(f"{path.stem}.expected.json")
    expected: dict[str, Any] = json.loads(beside.read_text()) if beside.exists() else {}
    url = expected.get("url") or URLS.get(platform, "https://county.example/page")
    wanted = expected.get("refused", "")
    response = HtmlResponse(url, 200, {b"Content-Type": KINDS[path.suffix]}, path.read_bytes(), request=Request(url))
    found = _records(platform, path.stem, response, expected)
    if isinstance(found, str):
        is_right = bool(re.search(wanted, found, re.IGNORECASE)) if wanted else not expected
        return Page(platform, path.stem, list(_unread(expected)), found, is_right)
    compared = compare(found.records, expected)
    compared += [Compared(f"reject of {each.kind}", WRONG, None, each.reason) for each in found.rejects]
    withheld = [f"{name} withheld: {why}" for record in found.records for name, why in record.unread.items()]
    is_right = not wanted or any(re.search(wanted, each, re.IGNORECASE) for each in withheld)
    return Page(platform, path.stem, compared, is_right=is_right)


def _records(platform: str, name: str, response: HtmlResponse, expected: dict[str, Any]) -> PageRows | str:
    """What is read of a page; the outcome and the reason of one that is refused."""
    verdict = classify(response, response.request)
    if verdict == OK:
        source = Source(_jurisdiction(name), "26001", expected.get("parcel_id_field", ""))
        provenance = Provenance(response.url, datetime.now(UTC), "test")
        try:
            return read_saved(platform, response.body, source, provenance, str(expected.get("parcel_id", "")))
        except (PageFailed, ParseError) as error:
            verdict = classify_page(response, error)
    return f"{verdict.outcome}: {verdict.reason}"


def _jurisdiction(name: str) -> str:
    """The site of the registry whose name the page's name begins with; else the page's name."""
    known = [site.name for site in load_sites() if name == site.name or name.startswith(f"{site.name}-")]
    return max(known, key=len, default=name)


def _unread(expected: dict[str, Any]) -> Iterator[Compared]:
    """The fields of a page that was refused, each of which is missing."""
    if "refused" not in expected:
        yield from (each for each in compare([], expected) if each.verdict == MISSING)


def _short(value: Any) -> str:
    text = str(value)
    return f"{text[:100]}..." if len(text) > 100 else text


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Name a folder of pages: make real PAGES=FOLDER")
    sys.exit(main(sys.argv[1]))
