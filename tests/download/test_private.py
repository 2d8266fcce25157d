"""No name leads a request into a private network, whoever names it: what counts is the address that is connected to."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from httpcore2 import AnyIOBackend
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.test import get_crawler

from harvester.config import Config, load_config
from harvester.download import dns
from harvester.download.addresses import permitted
from harvester.download.http1 import Http1DownloadHandler
from harvester.download.http2 import Http2DownloadHandler
from tests.crawling import Answer, Crawled, Plan, Site, crawl
from tests.forking import fork
from tests.politeness.robots.site import Reply, WebSite
from tests.root import ROOT
from tests.sandbox.street_plan import HousePlan
from tests.sandbox.street_process import Street

PUBLIC = "93.184.215.14"


async def strict(plan: Plan, folder: Path, **variables: str) -> Crawled:
    return await crawl(plan, folder, allow_private_hosts="no", requests_per_second="0", **variables)


async def test_no_name_and_no_redirect_leads_a_crawl_inward(tmp_path: Path) -> None:
    """Pages, their robots.txt, redirects: refused at once, never tried again, held against nobody."""
    async with Site() as inner, Site() as own:
        port = inner.name.rpartition(":")[2]
        names = {"inward.example": "127.0.0.1", "mapped.example": "127.0.0.1", "home.example": "127.0.0.1"}
        asked = [f"http://inward.example:{port}/{number}" for number in range(3)]
        asked += [f"http://127.0.0.1:{port}/", f"http://localhost:{port}/", f"http://2130706433:{port}/"]
        asked += [
            f"http://good.example@127.0.0.1:{port}/",
            f"http://127.0.0.1.:{port}/",
            f"http://[::ffff:7f00:1]:{port}/",
        ]
        leading = [*asked, f"//mapped.example:{port}/x"]
        own.answers = {f"/{number}": [Answer(302, headers={"Location": to})] for number, to in enumerate(leading)}
        home = f"http://home.example:{own.name.rpartition(':')[2]}"
        redirects = [f"{home}/{number}" for number in range(len(leading))]
        plan = Plan([*asked, *redirects, f"{home}/fine"], names=names)
        done = await strict(plan, tmp_path, private_hosts=home.removeprefix("http://"))
    for url in [*asked, *redirects]:
        (result,) = done.of(url)
        assert (result.outcome, result.tries) == ("policy_denied", 1), result
        assert "HARVESTER_PRIVATE_HOSTS" in result.said
    assert done.of(f"{home}/fine")[0].status == 200, "what the settings name may be asked"
    assert inner.arrivals == []
    assert done.stats.get("harvester/unclassified", 0) == 0
    assert "Traceback" not in done.log


async def test_no_sitemap_leads_a_crawl_inward(tmp_path: Path) -> None:
    """None that robots.txt names, none that a sitemap lists or redirects to, and no page of one."""
    async with WebSite() as inner, WebSite() as own:
        port = inner.name.rpartition(":")[2]
        inward = [f"http://{host}:{port}" for host in ("127.0.0.1", "localhost", "[::ffff:7f00:1]", "2130706433")]
        named = [*(f"{each}/named.xml" for each in inward), f"{own.url}/index.xml", f"{own.url}/away.xml"]
        own.replies["/robots.txt"] = [Reply(body="".join(f"Sitemap: {each}\n" for each in named).encode())]
        own.replies["/away.xml"] = [Reply(302, headers={"Location": f"{inward[0]}/away.xml"})]
        listed = "".join(f"<sitemap><loc>{each}/listed.xml</loc></sitemap>" for each in [*inward, own.url])
        own.replies["/index.xml"] = [Reply(body=f"<sitemapindex>{listed}</sitemapindex>".encode(), kind="text/xml")]
        pages = "\n".join(f"{each}/page" for each in [*inward, own.url])
        own.replies["/listed.xml"] = [Reply(body=pages.encode())]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")} | {
            "PYTHONPATH": str(ROOT),
            "SCRAPY_SETTINGS_MODULE": "harvester.settings",
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "no",
            "HARVESTER_PRIVATE_HOSTS": own.name,
            "HARVESTER_REQUESTS_PER_SECOND": "0",
        }
        process = await fork("tests.politeness.usage.crawl", own.url, cwd=tmp_path, env=environment)
        out, log = await process.communicate()
        assert process.returncode == 0, log.decode()
    told, stats = json.loads(out)
    assert inner.log == []
    assert list(told) == [f"{own.url}/page"]
    assert stats["harvester/sitemaps/elsewhere"] == 3 * len(inward)
    assert stats["harvester/outcomes/policy_denied"] == 1, "the redirect"


async def test_http2_is_refused_what_http1_is(tmp_path: Path) -> None:
    plans = [HousePlan("inner", scheme="h2"), HousePlan("own", scheme="h2")]
    with Street(plans, tmp_path / "street") as street:
        sites = street.register(tmp_path / "sites", {each.name: "[.http]\nhttp2 = true" for each in plans})
        own = street.url("own", "/page/1")
        inner = street.url("inner", "/page/1").replace("127.0.0.1", "inward.example")
        entry = '[inward]\nhosts = ["inward.example"]\n[inward.http]\nhttp2 = true\n'
        (sites / "inward.toml").write_text(entry)
        plan = Plan([own, inner], names={"inward.example": "127.0.0.1"})
        permitted = own.split("/")[2]
        done = await strict(plan, tmp_path, sites_dir=str(sites), private_hosts=permitted)
        asked = len(street.log("inner"))
    assert done.of(own)[0].status == 200, done.results
    assert done.of(inner)[0].outcome == "policy_denied", done.results
    assert asked == 0


class ChangingMind:
    """A name server that tells a public address first, and then one of this machine."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, host: str, family: socket.AddressFamily) -> list[dns.Address]:
        self.asked += 1
        return [(socket.AF_INET, PUBLIC if self.asked % 2 else "127.0.0.1")]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> ChangingMind:
    names = ChangingMind()
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "no")
    load_config.cache_clear()
    monkeypatch.setattr(dns, "ask_system", names)
    monkeypatch.setattr(dns, "KNOWN_S", -1.0)
    return names


class Connected(Exception):
    """Raised instead of connecting."""


async def test_a_name_that_changes_its_mind_is_connected_to_where_it_was_looked_at(
    names: ChangingMind, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[str] = []

    async def connect(connector: Any, *arguments: Any, addr_infos: list[Any], **options: Any) -> Any:
        met.extend(info[4][0] for info in addr_infos)
        raise aiohttp.ClientConnectionError("enough")

    monkeypatch.setattr(aiohttp.TCPConnector, "_wrap_create_connection", connect)
    handler = Http1DownloadHandler(get_crawler())
    outcomes = await _ask(handler, "http://flips.example:1/", 6)
    assert met == [PUBLIC] * 3
    assert outcomes == ["DownloadFailedError", "Refused"] * 3
    assert names.asked == 6, "one look-up each: between it and the connection there is no other"


async def test_over_http2_too(names: ChangingMind, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[str] = []

    async def connect(backend: Any, host: str, *arguments: Any) -> Any:
        met.append(host)
        raise OSError("enough")

    monkeypatch.setattr(AnyIOBackend, "connect_tcp", connect)
    handler = Http2DownloadHandler(get_crawler())
    assert (await _ask(handler, "https://flips.example:1/", 6))[1::2] == ["Refused"] * 3
    assert met == [PUBLIC] * 3
    assert names.asked == 6


async def _ask(handler: Any, url: str, times: int) -> list[str]:
    errors = []
    for _ in range(times):
        with pytest.raises(Exception) as caught:  # noqa: PT011  its class is what is told
            await handler.download_request(Request(url))
        errors.append(type(caught.value).__name__)
    await handler.close()
    return errors


def test_of_the_addresses_of_a_name_the_public_ones_are_connected_to() -> None:
    config = Config(allow_private_hosts=False)
    assert permitted("both.example", 80, ["10.0.0.1", PUBLIC, "::1"], config) == [PUBLIC]
    inward = ("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "fe80::1%eth0", "100.64.0.1", "224.0.0.1", "0.0.0.0")
    for address in inward:
        with pytest.raises(IgnoreRequest, match="private"):
            permitted("inward.example", 80, [address], config)
