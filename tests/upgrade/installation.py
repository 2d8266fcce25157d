"""A made-up installation: a project, the site that it crawls, and what its servers hold, as files."""

import asyncio
import errno
import json
import lzma
from collections.abc import Iterator
from typing import Any, Self

import bson
import msgspec
from pymongo.database import Database

from tests.crawling import LONGEST_S, Answer, Site

PORT = 11_713
"""Of the site: stored requests have it. No other test is given it (tests/ports.py)."""
URL = f"http://127.0.0.1:{PORT}"
DATABASE = "earlier"
"""Keys of Redis hold it."""
LISTS, PRODUCTS = range(5), range(8)
LATER, BROKEN = "/product/900", "/product/901"
"""Pages that answer 500 at first: the frontier tries the one again, and gives the other up."""
RECEIVER = f"{URL}/hook"
FORM = b'<form method="post"><input name="user"><input name="word" type="password"></form>'
USER, PASSWORD = "ann", "correct-horse-1"

SHOP = f"""
from datetime import date, time
from decimal import Decimal

import scrapy


class Product(scrapy.Item):
    number = scrapy.Field()
    title = scrapy.Field()
    price = scrapy.Field()
    seen = scrapy.Field()
    reviews = scrapy.Field()


class ShopSpider(scrapy.Spider):
    name = "shop"
    item_key = "number"
    MOST_HELD = 8

    async def start(self):
        yield self.product({LATER!r}, priority=100)
        yield self.product({BROKEN!r}, priority=100, max_retry_times=0)
        for number in range({len(LISTS)}):
            yield scrapy.Request(f"{URL}/list/{{number}}", priority=50)

    def product(self, path, priority=0, **meta):
        item = Product(number=int(path.rpartition("/")[2]), seen=date(2026, 1, 2), price=Decimal("9.90"))
        meta["item"] = item
        given = {{"opens": time(8, 30), "tags": ("new", item["number"])}}
        return scrapy.Request("{URL}" + path, self.parse_product, priority=priority, meta=meta, cb_kwargs=given)

    def parse(self, response):
        for path in response.json()["products"]:
            yield self.product(path, priority=int(path[-1]))

    def parse_product(self, response, opens, tags):
        item = response.meta["item"]
        item["title"] = response.json()["title"]
        path = f"/reviews/{{item['number']}}"
        given = {{"opens": opens, "tags": tags}}
        yield response.follow(path, self.parse_reviews, meta={{"item": item}}, cb_kwargs=given, priority=20)

    def parse_reviews(self, response, opens, tags):
        item = response.meta["item"]
        assert (opens, tags) == (time(8, 30), ("new", item["number"]))
        item["reviews"] = response.json()["reviews"]
        yield item
"""
PARCELS = f"""
import json

from scrapy import Request

from harvester.items import Record, Said, Stage
from harvester.spiders.job import JobSpider


class Parcel(Record, frozen=True, kw_only=True):
    KIND = "parcel"
    COLLECTION = "parcels"
    KEY = ("number",)

    number: str
    owner: str
    tax: int


class ParcelsSpider(JobSpider):
    name = "parcels"
    ITEM_KINDS = ("parcel",)

    def requests_of(self, items):
        for item in items:
            meta = {{"max_retry_times": 0}} if item.input.get("tries") == "one" else {{}}
            yield Request(f"{URL}/parcel/{{item.key}}", meta=meta, cb_kwargs={{"owner": item.input["owner"]}})

    def parse(self, response, owner):
        yield Stage(self.item_of(response).id, "seen")
        number = response.json()["number"]
        if number in ("4", "9"):
            yield Said(self.item_of(response).id, "failed", "vacant", "nobody owns it")
            return
        given = {{"owner": owner, "number": number}}
        yield response.follow(f"/tax/{{number}}", self.parse_tax, cb_kwargs=given)

    def parse_tax(self, response, owner, number):
        tax = json.loads(response.body)["tax"]
        yield Parcel(number=number, owner=owner, tax=tax, raw=response.body, provenance=self.provenance(response))
"""
DONE, FAILED, DEFERRED, ACTIVE = ("1", "2", "3"), "4", "5", ("6", "7")
"""Parcels of the job May, by what becomes of them before its process is killed."""
JUNE = ("8", "9")
"""Parcels of a job at which nobody has worked. The second one will fail, as the other."""
PROJECT = {
    "scrapy.cfg": "[settings]\ndefault = ours\n",
    "ours.py": """
ADDONS = {"harvester.Addon": 500}
SPIDER_MODULES = ["shop", "parcels", "harvester.spiders"]
CONCURRENT_REQUESTS = 4
""",
    "shop.py": SHOP,
    "parcels.py": PARCELS,
    "may.csv": "key,owner,tries\n"
    + "".join(f"{key},Ann,\n" for key in (*DONE, FAILED, *ACTIVE))
    + f"{DEFERRED},Bob,one\n",
    "june.csv": "key,owner,tries\n" + "".join(f"{key},Eve,\n" for key in JUNE),
    "endpoints.toml": f"""
[defaults]
interval = "5m"

[weather]
url = "{URL}/weather"

[prices]
url = "{URL}/prices"
rows = "rows"
key = "id"
schema = {{ type = "object", properties = {{ id = {{ type = "integer" }} }} }}
""",
    "sites/oak.toml": f"""
[oak]
hosts = ["127.0.0.1:{PORT}"]

[oak.outcomes.policies.server_error]
backoff_s = 60
breaker = false

[oak.identities]
kind = "form"
credentials = "OAK"
at_once = 4
expired_url = "/login"

[oak.identities.form]
page = "{URL}/login"
fields = {{ user = "{{user}}", word = "{{password}}" }}
success = {{ cookie = "in" }}
""",
    ".env": f"""
HARVESTER_SITES_DIR=sites
HARVESTER_ALLOW_PRIVATE_HOSTS=true
HARVESTER_REQUESTS_PER_SECOND=0
HARVESTER_DATABASE={DATABASE}
HARVESTER_SESSION_OAK_USER={USER}
HARVESTER_SESSION_OAK_PASSWORD={PASSWORD}
""",
}
"""Path -> text."""


class Oak(Site):
    """It answers whoever is logged in. One of them at a time has the port."""

    port = PORT

    def __init__(self) -> None:
        super().__init__()
        self.bad: set[str] = set()
        """Paths that answer 500."""
        self.held: tuple[str, ...] = ()
        """First parts of the paths of which only the next `first` are answered."""
        self.first = 0
        self.goes_on = asyncio.Event()
        """Until it is set, the others wait."""
        self.rows = 3
        """Rows of the prices."""
        self.unchanged = 0
        """How often a page was as before."""

    async def __aenter__(self) -> Self:
        async with asyncio.timeout(LONGEST_S):
            while True:
                try:
                    return await super().__aenter__()
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                await asyncio.sleep(0.05)

    async def __aexit__(self, *raised: Any) -> None:
        self.goes_on.set()
        await super().__aexit__(*raised)

    async def answer(self, path: str, number: int) -> Answer:
        kind, _, name = path.strip("/").partition("/")
        head = self.heads[path][-1].lower()
        if kind == "login":
            return Answer(body=FORM, kind="text/html")
        if kind.startswith("login?"):
            assert kind == f"login?user={USER}&word={PASSWORD}"
            return Answer(body=b"welcome", headers={"Set-Cookie": "in=yes; Path=/"}, kind="text/html")
        if kind != "hook" and "cookie: in=yes\r\n" not in head:
            return Answer(302, headers={"Location": "/login"})
        if path in self.bad:
            return Answer(500)
        if kind in self.held:
            self.first -= 1
            if self.first < 0:
                await self.goes_on.wait()
        body = json.dumps(self._page(kind, name)).encode()
        etag = f'"{len(body)}"'
        if kind == "weather" and f"if-none-match: {etag}" in head:
            self.unchanged += 1
            return Answer(304, b"", {"ETag": etag})
        return Answer(body=body, headers={"ETag": etag})

    def _page(self, kind: str, name: str) -> dict[str, Any]:
        match kind:
            case "list":
                return {"products": [f"/product/{int(name) * 100 + number}" for number in PRODUCTS]}
            case "product":
                return {"title": f"Product {name}"}
            case "reviews":
                return {"reviews": int(name) * 7}
            case "parcel":
                return {"number": name}
            case "tax":
                return {"tax": int(name) * 100}
            case "prices":
                return {"rows": [{"id": number, "price": number * 10} for number in range(self.rows)]}
        return {"sky": "blue"}

    def times(self, kind: str) -> dict[str, int]:
        """How often each path was asked for whose first part this is."""
        return {path: self.count(path) for path in self.heads if path.strip("/").partition("/")[0] == kind}


def of_mongodb(database: Database[dict[str, Any]]) -> bytes:
    """All that it holds."""
    collections = [
        {
            "name": known["name"],
            "options": known.get("options", {}),
            "indexes": [
                {name: value for name, value in index.items() if name not in ("v", "ns")}
                for index in database[known["name"]].list_indexes()
            ],
            "documents": list(database[known["name"]].find()),
        }
        for known in database.list_collections()
    ]
    return lzma.compress(bson.encode({"collections": collections}))


def to_mongodb(data: bytes, database: Database[dict[str, Any]]) -> None:
    """Has an empty database hold it."""
    for known in bson.decode(lzma.decompress(data))["collections"]:
        collection = database.create_collection(known["name"], **known["options"])
        for index in known["indexes"]:
            name, keys = index.pop("name"), list(index.pop("key").items())
            if name != "_id_":
                collection.create_index(keys, name=name, **index)
        if known["documents"]:
            collection.insert_many(known["documents"])


def of_redis(redis: Any) -> bytes:
    """All that it holds, in a form of no version's own: key, type, when it expires (ms since 1970, or -1), value."""
    rows: list[tuple[bytes, str, int, Any]] = []
    for key in sorted(redis.scan_iter(count=1000)):
        kind = redis.type(key).decode()
        value: Any
        match kind:
            case "string":
                value = redis.get(key)
            case "hash":
                value = redis.hgetall(key)
            case "list":
                value = redis.lrange(key, 0, -1)
            case "set":
                value = sorted(redis.smembers(key))
            case "zset":
                value = [(member, repr(score)) for member, score in redis.zrange(key, 0, -1, withscores=True)]
            case _:
                raise ValueError(f"{key!r} is a {kind}")
        rows.append((key, kind, redis.pexpiretime(key), value))
    return lzma.compress(msgspec.msgpack.encode(rows))


def to_redis(data: bytes, redis: Any) -> None:
    """Has an empty one hold it, but for what has expired since."""
    pipeline = redis.pipeline()
    for key, kind, expires, value in _rows(data):
        match kind:
            case "string":
                pipeline.set(key, value)
            case "hash":
                pipeline.hset(key, mapping=value)
            case "list":
                pipeline.rpush(key, *value)
            case "set":
                pipeline.sadd(key, *value)
            case "zset":
                pipeline.zadd(key, {member: float(score) for member, score in value})
        if expires >= 0:
            pipeline.pexpireat(key, expires)
    pipeline.execute()


def _rows(data: bytes) -> Iterator[tuple[bytes, str, int, Any]]:
    yield from msgspec.msgpack.decode(lzma.decompress(data))
