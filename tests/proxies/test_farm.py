"""A crawl through a farm of good and bad proxies obtains every page; a proxy answers only for its own faults.

One crawl of several sites: what one of them does to its proxies is nothing to another.
"""

import asyncio
import re
from base64 import b64decode
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from harvester.meta import SESSION_CHAIN
from tests.ports import free_port
from tests.proxies.crawl import Crawled, Plan, crawl
from tests.proxies.farm import Answer, Asked, Proxy, Site, Streams, send
from tests.proxies.setting import BLOCK, USER, USERS, WORD, entry, line, nothing_shown
from tests.sandbox.street_tls import tls_context

PAGES = [f"/page/{number}" for number in range(40)]
MISSING = [f"/none/{number}" for number in range(20)]
CHALLENGE = Answer(403, b"<html><title>Just a moment...</title><script src=/cdn-cgi/cf-chl-x></script></html>")
REFUSALS = {
    "/missing": (Answer(404), "not_found"),
    "/gone": (Answer(410), "gone"),
    "/login": (Answer(401), "auth_required"),
    "/law": (Answer(451), "policy_denied"),
    "/challenge": (CHALLENGE, "challenge"),
    "/broken": (Answer(500), "server_error"),
}


class Gateway(Proxy):
    """A vendor's: there is one address that it does not go to."""

    async def answer(self, asked: Asked, streams: Streams) -> bool:
        if asked.path == "/forbidden":
            headers = {"x-brd-err-code": "policy_20040", "x-brd-err-msg": f"brd-customer-{USER} may not"}
            return await send(streams[1], Answer(403, BLOCK, headers))
        return await super().answer(asked, streams)


class Ran:
    """The crawl, its sites and proxies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"site{uuid4().hex[:8]}"
        nothing = {path: Answer(404, b"<html>nothing here</html>") for path in MISSING}
        self.plain = Site(nothing, refuses=["banned"])
        context = tls_context(folder, "http/1.1")
        self.secure, self.modern = Site(context=context), Site(context=context)
        self.inner, self.outer = Site(context=context), Site()
        self.refusing = Site({path: answer for path, (answer, _) in REFUSALS.items()})
        self.chained = Site()
        self.good = [Proxy(f"good{number}", users=USERS) for number in range(2)]
        self.slow, self.banned = Proxy("slow", users=USERS, delay_s=0.3), Proxy("banned", users=USERS)
        self.own_page = Proxy("own page", users=USERS, says=Answer(403, BLOCK))
        self.wrong = Proxy("wrong", users=USERS)
        self.tunnel = Proxy("tunnel", users=USERS)
        self.no_tunnels = [Proxy(users=USERS, says_on_connect=Answer(status, b"no")) for status in (403, 502)]
        self.wrong_tunnel = Proxy("wrong", users=USERS)
        self.dearer = Proxy("dearer", users=USERS)
        self.gateway = Gateway("gateway")
        self.by_tls = Proxy("tls", users=USERS, context=context)

    async def run(self, redis_url: str, free_port: int) -> None:
        async with AsyncExitStack() as stack:
            for listener in (
                value for each in vars(self).values() for value in (each if type(each) is list else [each])
            ):
                if isinstance(listener, (Site, Proxy)):
                    await stack.enter_async_context(listener)
            await self._crawl(redis_url, free_port)

    async def _crawl(self, redis_url: str, free_port: int) -> None:
        name = self.name
        proxies = "# the farm\n" + "".join(
            line(proxy, "datacenter") for proxy in (*self.good, self.slow, self.banned, self.own_page)
        )
        proxies += line(self.wrong, "datacenter", "wrong") + f"http://127.0.0.1:{free_port}\n"
        proxies += "".join(line(proxy, "isp") for proxy in (self.tunnel, *self.no_tunnels))
        proxies += line(self.wrong_tunnel, "isp", "wrong") + line(self.dearer, "residential", country="us")
        proxies += f"https://{USER}:{WORD}@{self.by_tls.name} mobile\n"
        sites = entry(f"{name}p", self.plain) + entry(f"{name}s", self.secure, tiers='["isp"]')
        sites += entry(f"{name}r", self.refusing, tiers='["none", "residential"]')
        sites += entry(f"{name}m", self.modern, tiers='["isp"]') + f"[{name}m.http]\nhttp2 = true\n"
        sites += entry(f"{name}i", self.inner, tiers='["mobile"]') + entry(f"{name}o", self.outer, tiers='["mobile"]')
        vendor = {"tiers": '["residential"]', "vendor": '"brightdata"', "sticky": '"chain"'}
        sites += entry(f"{name}c", self.chained, **vendor, country='"us"', state='"ny"')
        (self.folder / "sites").mkdir()
        (self.folder / "sites" / "farm.toml").write_text(sites)
        (self.folder / "list").write_text(proxies)
        urls = [self.plain.url + path for path in (*PAGES, *MISSING)]
        urls += [self.secure.url + path for path in PAGES]
        urls += [self.refusing.url + path for path in (*REFUSALS, "/fine")]
        urls += [self.modern.url + path for path in PAGES]
        urls += [site.url + path for site in (self.inner, self.outer) for path in PAGES[:5]]
        metas: list[dict[str, str]] = [{} for _ in urls]
        metas += [{SESSION_CHAIN: f"chain{number % 2}"} for number in range(10)]
        metas += [{} for _ in range(5)]
        urls += [f"{self.chained.url}/{number}" for number in range(14)] + [f"{self.chained.url}/forbidden"]
        self.crawled: Crawled = await crawl(
            self.folder,
            Plan(name, urls, metas),
            redis_url=redis_url,
            requests_per_second="0",
            sites_dir=str(self.folder / "sites"),
            proxies_file=str(self.folder / "list"),
            brightdata_customer=USER,
            brightdata_zones=f"residential=res1:{WORD}@{self.gateway.name}",
        )

    def outcomes(self, site: Site) -> dict[str, str]:
        """By path."""
        told = self.crawled.outcomes
        return {url.removeprefix(site.url): told[url] for url in told if url.startswith(site.url)}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Ran:
    ran = Ran(tmp_path_factory.mktemp("farm"))
    asyncio.run(ran.run(redis_url, free_port()))
    return ran


def test_all_pages_are_obtained(ran: Ran) -> None:
    outcomes = ran.outcomes(ran.plain)
    assert {path: outcomes[path] for path in PAGES} == dict.fromkeys(PAGES, "200")
    assert {outcomes[path].partition(":")[0] for path in MISSING} == {"not_found"}
    assert all(asked.headers.get("x-via") for asked in ran.plain.asked)  # nothing went past the proxies


def test_no_404_is_held_against_a_proxy(ran: Ran) -> None:
    answered = [asked.path for asked in ran.plain.asked if asked.headers["x-via"] != "banned"]
    assert Counter(path for path in answered if path in MISSING) == Counter(MISSING)  # once each
    assert all(any(path in MISSING for path in proxy.pages()) for proxy in ran.good)
    alive, known = (
        ran.crawled.stats[f"harvester/proxies/{what}/{ran.name}p/datacenter"] for what in ("alive", "known")
    )
    assert known == 7
    assert alive >= len([*ran.good, ran.slow])


def test_https_goes_through_tunnels_and_round_those_that_are_refused(ran: Ran) -> None:
    assert ran.outcomes(ran.secure) == ran.outcomes(ran.modern) == dict.fromkeys(PAGES, "200")
    for proxy in (ran.tunnel, *ran.no_tunnels, ran.wrong_tunnel):
        assert {asked.method for asked in proxy.asked} == {"CONNECT"}
    assert not any("proxy-authorization" in asked.headers for asked in (*ran.secure.asked, *ran.modern.asked))


def test_a_proxy_may_be_spoken_to_by_tls(ran: Ran) -> None:
    assert ran.outcomes(ran.inner) == ran.outcomes(ran.outer) == dict.fromkeys(PAGES[:5], "200")
    assert {asked.method for asked in ran.by_tls.asked} == {"CONNECT", "GET"}


def test_faults_of_proxies_are_told_apart(ran: Ran) -> None:
    for kind in ("auth", "policy", "capacity", "unreachable"):
        assert ran.crawled.stats[f"harvester/proxies/faults/proxy_{kind}"] >= 1
    for name in (ran.wrong.name, ran.wrong_tunnel.name):
        assert len(re.findall(rf"(?:WARNING|ERROR): .*{name} ", ran.crawled.log)) == 1


def test_no_refusal_by_policy_and_nothing_absent_leads_to_a_dearer_tier(ran: Ran) -> None:
    told = {path: outcome.partition(":")[0] for path, outcome in ran.outcomes(ran.refusing).items()}
    assert told == {path: outcome for path, (_, outcome) in REFUSALS.items()} | {"/fine": "200"}
    assert ran.dearer.asked == []


def test_a_vendor_gets_its_user_names_and_gives_each_chain_an_address(ran: Ran) -> None:
    outcomes = ran.outcomes(ran.chained)
    assert [outcomes[f"/{number}"] for number in range(14)] == ["200"] * 14
    users = {asked.path: user_of(asked) for asked in ran.gateway.asked}
    plain = f"brd-customer-{USER}-zone-res1-country-us-state-ny"
    assert {users[f"/{number}"] for number in range(10, 14)} == {f"{plain}:{WORD}"}
    chains = [{users[f"/{number}"] for number in range(first, 10, 2)} for first in (0, 1)]
    assert [len(chain) for chain in chains] == [1, 1]
    assert chains[0] != chains[1]
    assert all(user.startswith(f"{plain}-session-") for chain in chains for user in chain)


def test_what_a_vendor_will_not_fetch_is_not_asked_of_it_again(ran: Ran) -> None:
    outcome = ran.outcomes(ran.chained)["/forbidden"]
    assert (outcome.startswith("proxy: proxy_policy: policy_20040"), USER in outcome) == (True, False)
    assert len([asked for asked in ran.gateway.asked if asked.path == "/forbidden"]) == 1
    assert "/forbidden" not in ran.chained.paths()


def test_no_credential_is_shown(ran: Ran) -> None:
    nothing_shown(ran.crawled)


def user_of(asked: Asked) -> str:
    return b64decode(asked.headers["proxy-authorization"].removeprefix("Basic ")).decode()
