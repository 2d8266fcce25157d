"""Downloader middleware: writes a site's opt-outs from training and text mining on the records of its pages.

Headers and meta elements of a page are always read. robots.txt, tdmrep.json and ai.txt of its origin are read once,
if the site's entry or the spider sets `read_opt_outs`. The crawl continues whatever they say, unless the entry sets
`honour_opt_outs = "skip"`.
"""

from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Headers, HtmlResponse, Response

from harvester.download.addresses import host_of
from harvester.frontier.attempts import attempts_of
from harvester.internal_meta import DONT_OBEY, MEDIA, USAGE
from harvester.items import Usage
from harvester.middlewares.outcome import failed_on_its_way_back
from harvester.outcomes import Outcome, RequestFailed, Verdict
from harvester.parsers.web.usage import Signal, header_signals, html_signals, refuses, usage_of
from harvester.politeness.usage import UsageFiles
from harvester.sites import load_sites

_HEADERS = frozenset({b"Content-Usage", b"X-Robots-Tag", b"Tdm-Reservation"})


class UsageMiddleware:
    """Puts `usage` into the provenance of records, through HarvesterSpider.provenance."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._attempts = attempts_of(crawler)
        self._token = crawler.settings.get("ROBOTSTXT_USER_AGENT") or crawler.settings["BOT_NAME"]
        self._registered = any(_wants(site.politeness) for site in load_sites().having("politeness"))
        self._files = UsageFiles(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        meta = request.meta
        meta.pop(USAGE, None)  # may be copied from another page
        if not self._reads_files(request):
            return
        known = await self._files.known(request.url)
        if load_sites().of(request.url).politeness.honour_opt_outs == "skip":
            if known.unpaid:
                raise known.unpaid.at(known.unpaid.seconds)
            usage = usage_of(known.files.signals(request.url))
            if usage and refuses(usage):
                raise self._refusal(request, usage)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        meta = request.meta
        if MEDIA in meta or DONT_OBEY in meta or self._attempts.is_refused(request, response):
            return response
        signals: list[Signal] = []
        if not _HEADERS.isdisjoint(response.headers):
            signals += header_signals(_texts(response.headers), self._token)
        if isinstance(response, HtmlResponse):
            signals += html_signals(response.body, self._token)
        if self._reads_files(request):
            signals += (await self._files.known(response.url)).files.signals(response.url)
        if signals:
            usage = usage_of(signals)
            assert usage
            self._stats.inc_value(f"harvester/usage/{'refused' if refuses(usage) else 'said'}")
            if refuses(usage) and load_sites().of(request.url).politeness.honour_opt_outs == "skip":
                return await failed_on_its_way_back(self._crawler, request, self._refusal(request, usage))
            meta[USAGE] = (usage.training, usage.mining, usage.signals)
        return response

    def _refusal(self, request: Request, usage: Usage) -> RequestFailed:
        """Counts a page whose site opts out, and returns the exception."""
        said = f"{host_of(request.url)} opts out: {'; '.join(usage.signals)[:200]}"
        self._stats.inc_value("harvester/usage/skipped")
        return RequestFailed(Verdict(Outcome.POLICY_DENIED, said), 1)

    def _reads_files(self, request: Request) -> bool:
        if MEDIA in request.meta or DONT_OBEY in request.meta or not request.url.startswith("http"):
            return False
        if getattr(self._crawler.spider, "read_opt_outs", False):
            return True
        return self._registered and _wants(load_sites().of(request.url).politeness)


def _wants(politeness: Any) -> bool:
    return bool(politeness.read_opt_outs) or politeness.honour_opt_outs == "skip"


def _texts(headers: Headers) -> dict[str, str]:
    """Returns the headers that may contain opt-outs; repeated headers are joined, as RFC 9110 allows.

    X-Robots-Tag is joined by line breaks: each may name a robot, which counts up to the end of the line.
    """
    joints = {"Content-Usage": b", ", "X-Robots-Tag": b"\n", "TDM-Reservation": b", ", "TDM-Policy": b", "}
    return {
        name.lower(): joint.join(headers.getlist(name)).decode("latin-1")
        for name, joint in joints.items()
        if name in headers
    }
