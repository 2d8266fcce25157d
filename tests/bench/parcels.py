"""`make bench`: parcels of two platforms, beside the same pages in plain Scrapy.

    python -m tests.bench.parcels [rounds]

A county of the sandbox is in a process of its own. The plain spider asks for the same pages of each parcel, with as
many sessions, and writes what they say, label by label, as JSON lines. harvester's spiders store the parcels: parsed,
validated, staged, in MongoDB. Both sides take turns in each round, each in a process of its own. Exit code 1 when
harvester has fewer parcels for each second of CPU than TARGET of those of plain Scrapy.
"""

import asyncio
import json
import os
import statistics
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pymongo import MongoClient
from scrapy import FormRequest, Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response, TextResponse
from scrapy.settings import Settings

from harvester.config import Config
from harvester.stores import servers
from tests.bench.crawl import settings_of
from tests.bench.items import PLAIN, Clock, Measured
from tests.bench.servers import module, own_redis
from tests.crawling import Site
from tests.sandbox.county import County
from tests.sandbox.county_iasworld import IasworldPortal
from tests.sandbox.vision import VisionTown

NAME = "tests.bench.parcels"
ROUNDS, TARGET = 3, 0.8
PARCELS = {"iasworld": 500, "vgsi": 1500}
SESSIONS = 8
SITE = "us-mi-made-up"
ENTRY = """
[{site}]
hosts = ["{host}"]
politeness.requests_per_second = 0
{identities}
[{site}.property]
name = "Made-up County"
fips = "26001"
platform = "{platform}"
base_url = "{url}"
{disclaimer}
"""


class PlainIasworld(Spider):
    """Search and datalets of each parcel; a session asks for one parcel at a time."""

    name = "iasworld"
    url: str
    parcels: list[str]

    async def start(self) -> AsyncIterator[Request]:
        self.left = iter(self.parcels)
        for session in range(SESSIONS):
            for request in self.next_parcel(session):
                yield request

    def next_parcel(self, session: int) -> Iterator[Request]:
        for parcel in self.left:
            url = f"{self.url}search/commonsearch.aspx?mode=parid"
            yield Request(url, self.parse_form, dont_filter=True, meta={"cookiejar": session, "parcel": parcel})
            return

    def parse_form(self, response: Response) -> Request:
        assert isinstance(response, TextResponse)
        if response.css("form[name=Form1]"):
            return FormRequest.from_response(response, callback=self.parse_form, dont_filter=True, meta=of(response))
        data = {"inpParid": response.meta["parcel"], "hdAction": "Search"}
        return FormRequest.from_response(
            response, formdata=data, callback=self.parse_answer, dont_filter=True, meta=of(response)
        )

    def parse_answer(self, response: Response) -> Iterator[Any]:
        rows = response.css("tr.SearchResults")
        if not rows:
            yield from self.parse_datalet(response)
            return
        row = max(rows, key=lambda each: each.css("td:last-child::text").get(""))
        link = row.attrib["onclick"].split("'")[1]
        yield response.follow(link, self.parse_datalet, dont_filter=True, meta=of(response))

    def parse_datalet(self, response: Response) -> Iterator[Any]:
        shown = dict(response.meta.get("shown", {}))
        for table in response.css("table[id]"):
            if labels := table.css("td.DataletTopHeading::text").getall():
                rows = [row.css("td.DataletData::text").getall() for row in table.css("tr")[1:]]
                shown[table.attrib["id"]] = [dict(zip(labels, row, strict=False)) for row in rows]
            else:
                sides = (row.css("td::text").getall() for row in table.css("tr"))
                shown[table.attrib["id"]] = [side for side in sides if len(side) > 1]
        tabs = response.meta.get("tabs")
        if tabs is None:
            tabs = [each for each in response.css("#sidemenu li.unsel a::attr(href)").getall() if "mode=" in each]
        if tabs:
            kept = of(response) | {"shown": shown, "tabs": tabs[1:]}
            yield response.follow(tabs[0], self.parse_tab, dont_filter=True, meta=kept)
            return
        yield {"parcel": response.meta["parcel"], "shown": shown}
        yield from self.next_parcel(response.meta["cookiejar"])

    parse_tab = parse_datalet


class PlainVgsi(Spider):
    """A card of each parcel."""

    name = "vgsi"
    url: str
    parcels: list[str]

    async def start(self) -> AsyncIterator[Request]:
        for parcel in self.parcels:
            yield Request(f"{self.url}Parcel.aspx?pid={parcel}", cb_kwargs={"parcel": parcel})

    def parse(self, response: Response, parcel: str) -> Iterator[Any]:
        shown = {each.attrib["id"]: each.css("::text").getall() for each in response.css("span[id]")}
        tables = [
            [row.css("th::text, td::text").getall() for row in table.css("tr")] for table in response.css("table[id]")
        ]
        yield {"parcel": parcel, "shown": shown, "tables": tables}


PLAIN_SPIDERS: dict[str, type[Spider]] = {"iasworld": PlainIasworld, "vgsi": PlainVgsi}


def of(response: Response) -> dict[str, Any]:
    """What goes along with each request of a parcel."""
    return {name: response.meta[name] for name in ("cookiejar", "parcel")}


def sandbox(platform: str) -> tuple[Site, list[str]]:
    """The county, which is not served yet, and the numbers of its parcels."""
    if platform == "vgsi":
        town = VisionTown(PARCELS[platform])
        return town, [str(pid) for pid in town.parcels]
    county = County(PARCELS[platform])
    return IasworldPortal(county), [parcel.parcel_id for parcel in county.parcels]


async def serve(platform: str) -> None:
    site, _ = sandbox(platform)
    async with site:
        print(site.name.rpartition(":")[2], flush=True)
        await asyncio.Event().wait()


def crawl(side: str, platform: str, url: str) -> None:
    """In this process."""
    settings = settings_of("harvester") if side == "harvester" else Settings(PLAIN)
    settings["EXTENSIONS"] = {**settings["EXTENSIONS"], Clock: 1}
    process = AsyncCrawlerProcess(settings)
    if side == "harvester":
        same_pages = {"media": "no"} if platform == "iasworld" else {}  # the plain spider fetches no PDFs
        process.crawl(platform, site=SITE, parcels="@parcels.csv", **same_pages)
    else:
        process.crawl(PLAIN_SPIDERS[platform], url=url, parcels=json.loads(Path("parcels.json").read_text()))
    process.start()


def write_inputs(folder: Path, platform: str, host: str, url: str) -> None:
    """The entry of the county, and its parcels for either side."""
    _, numbers = sandbox(platform)
    agreed = platform == "iasworld"
    identities = f"identities = {{ logins_per_hour = 10000, count = {SESSIONS}, chain_idle_s = 3600 }}"
    entry = ENTRY.format(
        site=SITE,
        host=host,
        platform=platform,
        url=url,
        identities=identities if agreed else "",
        disclaimer='disclaimer = "accepted by the bench on 2026-01-31"' if agreed else "",
    )
    (folder / "sites").mkdir(exist_ok=True)
    (folder / "sites" / "mi.toml").write_text(entry)
    (folder / "parcels.json").write_text(json.dumps(numbers))
    (folder / "parcels.csv").write_text("parcel_id\n" + "".join(f'"{number}"\n' for number in numbers))


def measure(platform: str, rounds: int) -> int:
    """Prints the measurement of a platform; 1 when harvester misses the target."""
    number = PARCELS[platform]
    measured: dict[str, list[Measured]] = {"plain": [], "harvester": []}
    database = f"bench-{os.getpid()}-{platform}"
    with ExitStack() as stack:
        uri = servers.mongodb_uri(Config())
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="harvester-bench-")))
        host = f"127.0.0.1:{stack.enter_context(module(NAME, 'serve', platform))[1][0]}"
        url = f"http://{host}{'/PT/' if platform == 'iasworld' else '/adatownme/'}"
        write_inputs(folder, platform, host, url)
        variables = {
            "MONGODB_URI": uri,
            "REDIS_URL": stack.enter_context(own_redis()),
            "HARVESTER_DATABASE": database,
            "HARVESTER_SITES_DIR": str(folder / "sites"),
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_REQUESTS_PER_SECOND": "0",
        }
        client = stack.enter_context(MongoClient[dict[str, Any]](uri))
        for _ in range(rounds):
            for side, rows in measured.items():
                rows.append(Measured.by([side, platform, url], folder, NAME, **variables))
            assert sum(1 for _ in (folder / "records.jsonl").open()) == number
            assert client[database]["properties"].count_documents({}) == number
            client.drop_database(database)
    print(f"\nParcels of {platform} for each second of CPU ({number} parcels, median of {rounds} rounds)")
    names = {
        "plain": "plain Scrapy, labels and values as JSON lines",
        "harvester": "harvester: parsed, validated, staged, in MongoDB",
    }
    for side, rows in measured.items():
        rate = statistics.median(number / row.cpu for row in rows)
        print(f"  {names[side]:58}{rate:7.1f} ({rows[0].items} pages)")
    pairs = zip(measured["plain"], measured["harvester"], strict=True)
    ratio = statistics.median(plain.cpu / own.cpu for plain, own in pairs)
    print(f"  ratio {ratio:.2f} (at least {TARGET} is wanted)")
    return int(ratio < TARGET)


def main(rounds: int = ROUNDS) -> int:
    return max([measure(platform, rounds) for platform in PARCELS])


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(sys.argv[2]))
    elif sys.argv[1:2] in (["plain"], ["harvester"]):
        crawl(*sys.argv[1:])
    else:
        sys.exit(main(*map(int, sys.argv[1:])))
