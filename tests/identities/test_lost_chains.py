"""A chain that has lost its session to another one says nothing of that session: it was not even asked."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.frontier.attempts import attempts_of
from harvester.identities.chains import stay_in_session
from harvester.identities.crawl_identities import _accounts_of
from harvester.internal_meta import KNOWN_VERDICT
from harvester.meta import SESSION_CHAIN
from harvester.middlewares.identities import IdentitiesMiddleware
from harvester.outcomes import Outcome, Verdict

ENTRY = """
[county]
hosts = ["county.test"]
[county.identities]
kind = "anonymous"
serial = true
chain_idle_s = 1e-9
"""
BUSY = Verdict(Outcome.SERVER_ERROR, "HTTP 503")


class Site:
    """What goes out to it, and comes back, in one process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "sites").mkdir()
        (folder / "sites" / "county.toml").write_text(ENTRY)
        monkeypatch.setenv("HARVESTER_SITES_DIR", str(folder / "sites"))
        monkeypatch.setenv("HARVESTER_STATE_DIR", str(folder / "state"))
        self.crawler: Crawler = get_crawler(Spider)
        self.crawler.engine = cast(Any, SimpleNamespace(running=True, _slot=None))
        self.middleware = IdentitiesMiddleware.from_crawler(self.crawler)

    async def ask(self, request: Request, verdict: Verdict | None = None) -> Request:
        """Its answer is there, and was judged. Returns it as it would be tried again."""
        assert await self.middleware.process_request(request) is None
        self.middleware.process_response(request, Response(request.url))
        attempts_of(self.crawler).tell(request, verdict or Verdict(Outcome.OK, ""), None)
        return request.replace()

    async def lose(self, request: Request) -> str:
        """It is not sent. Returns what is said of it."""
        with pytest.raises(IgnoreRequest):
            await self.middleware.process_request(request)
        outcome, said = request.meta.pop(KNOWN_VERDICT)
        attempts_of(self.crawler).tell(request, Verdict(outcome, said), None)
        return f"{outcome}: {said}"


def chained(chain: str, after: Request | None = None) -> Request:
    request = Request(f"http://county.test/{chain}", meta={SESSION_CHAIN: chain})
    if after is not None:
        stay_in_session(request, after)
    return request


async def test_a_request_that_is_tried_again_in_a_lost_chain_does_not_end_the_session_of_the_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, monkeypatch)
    first = await site.ask(chained("a"))
    again = await site.ask(chained("a", first), BUSY)
    other = chained("b")
    assert await site.middleware.process_request(other) is None
    site.middleware.process_response(other, Response(other.url))  # nobody has read it yet
    lost = await site.lose(again)
    assert (lost.partition(":")[0], lost.endswith(" 1")) == ("session_expired", True)
    await site.ask(chained("b", other))
    (identity,) = site.middleware.identities._pool(site.middleware.identities._site(other)).identities.values()
    assert identity.health.level(0.0) == 1.0
    assert site.crawler.stats.get_value("harvester/identities/expired/county") is None


def test_what_a_spider_that_is_not_harvester_s_calls_accounts_gives_it_no_identity() -> None:
    crawler = get_crawler()
    for accounts in (3, "anything", object()):
        crawler.spider = Spider("other", account="ann", further_accounts=accounts)
        assert _accounts_of(crawler) == {}
