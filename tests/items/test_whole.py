"""A site that harvester knows nothing of: its records go through all pipelines, from a plain spider on the frontier."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import redis.asyncio
from PIL import Image
from pymongo.database import Database

from harvester.frontier.store import Frontier
from harvester.items.raw import read_back
from harvester.stores.staging import iter_records, read_segment
from tests.crawling import LONGEST_S, Answer, Site
from tests.forking import fork
from tests.images.samples import GOOD
from tests.root import ROOT


def page(number: int, rest: str = "", pages: int = 100) -> bytes:
    text = f"""<!DOCTYPE html>
<title>Book {number}</title><h1>Stra\u00dfe {number}</h1>
<p class="price">\u00a3{number}.50</p><p class="pages">{pages}</p>
<p class="blurb">All  of *it* &amp;amp; more</p>{rest}"""
    return text.encode()


def cover(number: int) -> str:
    return f'<img src="/cover/{number}.png">'


HTML = "text/html; charset=utf-8"
PAGES = {
    1: page(1, cover(1)),
    2: page(2).decode().replace("\u00a3", "").encode("latin-1"),
    3: page(3, "<!-- \0 \ufeff \u2028 \U0001f98b -->\r\n"),
    4: page(4, "<!-- " + "long \u00e9 " * 700_000 + " -->"),
    5: page(5, cover(5)),
    6: page(6, pages=-6),
    7: page(7) + b"\xed\xa0\x80 \xff",
}
"""2 is Latin-1, 4 has more than 5 MB, 5's picture climbs out of its folder, 6 breaks a rule, 7 is damaged."""
STORED = PAGES.keys() - {6}


class Shop(NamedTuple):
    site: Site
    folder: Path
    database: Database[dict[str, Any]]
    frontier: Frontier
    log: str

    @property
    def staged(self) -> dict[str, bytes]:
        """Key -> `raw`, of the lines of books."""
        segments = sorted((self.folder / "staging" / self.frontier.spider / "book").rglob("*.zst"))
        keys = [line["key"] for line in iter_records(self.folder, self.frontier.spider, "book")]
        return dict(zip(keys, (read_back(line) for path in segments for line in read_segment(path)), strict=True))


@pytest.fixture
async def shop(
    tmp_path: Path,
    mongodb: Database[dict[str, Any]],
    mongodb_uri: str,
    redis_url: str,
) -> AsyncIterator[Shop]:
    links = [f'<a class="book" href="/book/{number}">{number}</a>' for number in PAGES]
    answers = {
        "/list/1": [Answer(body="".join([*links[:4], '<a class="next" href="/list/2">']).encode(), kind=HTML)],
        "/list/2": [Answer(body="".join(links[4:]).encode(), kind=HTML)],
        **{f"/cover/{number}.png": [Answer(body=GOOD["plain.png"], kind="image/png")] for number in PAGES},
        **{f"/book/{number}": [Answer(body=body, kind=HTML)] for number, body in PAGES.items()},
        "/book/2": [Answer(body=PAGES[2], kind="text/html; charset=iso-8859-1")],
    }
    own = {
        "REDIS_URL": redis_url,
        "MONGODB_URI": mongodb_uri,
        "DATABASE": mongodb.name,
        "DATA_DIR": str(tmp_path),
        "STATE_DIR": str(tmp_path / "state"),
        "REQUESTS_PER_SECOND": "0",
        "ALLOW_PRIVATE_HOSTS": "true",
    }
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **{f"HARVESTER_{name}": value for name, value in own.items()}}
    client = redis.asyncio.from_url(redis_url)
    frontier = Frontier(client, f"shop-{uuid4().hex[:8]}", mongodb.name)
    async with Site(answers) as site:
        crawl = await fork("tests.items.shop", site.url, frontier.spider, cwd=tmp_path, env=environment)
        _, log = await crawl.end(LONGEST_S)
        assert crawl.returncode == 0, log
        yield Shop(site, tmp_path, mongodb, frontier, log)
    await frontier.drop()
    await client.aclose()


async def test_records_without_an_account_go_through_all_pipelines(shop: Shop) -> None:
    status = await shop.frontier.status()
    assert status.balanced
    assert (status.done, status.dead, status.queued) == (9, 0, 9), shop.log
    books = {book["_id"]: book for book in shop.database["books"].find()}
    assert books.keys() == {str(number) for number in STORED}
    first = books["1"]
    provenance = first.pop("provenance")
    assert (provenance["url"], provenance["spider"]) == (f"{shop.site.url}/book/1", shop.frontier.spider)
    assert first == {
        "_id": "1",
        "number": 1,
        "title": "Stra\u00dfe 1",
        "price": 1.5,
        "page_count": 100,
        "blurb": "All  of *it* &amp; more",
        "blurb_clean": "All of it & more",
        "cover_url": f"{shop.site.url}/cover/1.png",
        "media_paths": {"cover": "books/1.jpg"},
        "media_sources": {"cover": f"{shop.site.url}/cover/1.png"},
    }
    assert shop.database["books"].index_information().keys() >= {"_id_", "price_1"}
    assert {"posts", "profiles"}.isdisjoint(shop.database.list_collection_names()), "of a site that nobody crawled"

    assert shop.staged == {str(number): PAGES[number] for number in STORED}
    (segment,) = (shop.folder / "rejects" / shop.frontier.spider / "book").rglob("*.zst")
    (rejected,) = read_segment(segment)
    assert b'"reason":"page_count is negative"' in rejected
    assert read_back(rejected) == PAGES[6]

    pictures = [path.relative_to(shop.folder / "images") for path in (shop.folder / "images").rglob("*.jpg")]
    assert pictures == [Path("books/1.jpg")]
    with Image.open(shop.folder / "images" / "books/1.jpg") as image:
        assert image.format == "JPEG"
    assert not list(shop.folder.parent.rglob("climbed.jpg"))
    assert "media_paths" not in books["5"]
    assert "new records  6 books" in shop.log
    assert "accounts" not in shop.log
