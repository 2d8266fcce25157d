"""Begins a crawl with the sitemaps of a site."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import ClassVar
from urllib.parse import urljoin

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.download.addresses import origin_of, refuse_private
from harvester.hosts import without_user
from harvester.outcomes import get_policy, verdict_of
from harvester.parsers.web.packed import MOST_BYTES
from harvester.parsers.web.robots import parse_robots
from harvester.parsers.web.sitemap import Sitemap, SitemapEntry, parse_sitemap
from harvester.parsers.web.values import is_address
from harvester.sites import load_sites
from harvester.spiders.base import HarvesterSpider

MOST_LEVELS = 3
"""Maximum depth of sitemaps that list sitemaps; the protocol allows two."""
SITEMAP_PRIORITY = 10
"""Priority above pages: a sitemap is short, and shows how much there is to do."""


class SitemapSpider(HarvesterSpider, ABC):
    """The base of spiders that discover pages in sitemaps. Implement `page_request`, and yield in `start`:

        for request in self.sitemap_requests("https://example.org/"):
            yield request

    Each step towards a page is a request in the frontier, so that an interrupted crawl loses none.
    """

    reads_apart: ClassVar[frozenset[str]] = frozenset({"parse_sitemap"})

    @abstractmethod
    def page_request(self, entry: SitemapEntry) -> Request | None:
        """Returns the request for a page that a sitemap lists; None to skip it."""

    def sitemap_requests(self, *urls: str) -> Iterator[Request]:
        """Yields requests that lead to the sites' sitemaps: those that robots.txt names, or /sitemap.xml."""
        for url in urls:
            origin = origin_of(url)
            yield Request(
                f"{origin}/robots.txt",
                self.parse_sitemap_names,
                errback=self.sitemaps_unnamed,
                cb_kwargs={"origin": origin},
                priority=SITEMAP_PRIORITY,
                dont_filter=True,
            )

    def parse_sitemap_names(self, response: Response, origin: str) -> Iterator[Request]:
        """Yields requests for the sitemaps that a robots.txt names."""
        yield from self._sitemaps(origin, parse_robots(response.body, ()).sitemaps)

    def sitemaps_unnamed(self, failure: Failure) -> Iterator[Request]:
        """Tries /sitemap.xml: a site without robots.txt may have a sitemap."""
        assert failure.value
        if get_policy(verdict_of(failure.value).outcome).no_content:
            yield from self._sitemaps(failure.request.cb_kwargs["origin"], [])  # type: ignore[attr-defined]

    def _sitemaps(self, origin: str, named: list[str]) -> Iterator[Request]:
        site = load_sites().of(origin).name
        addresses = [_joined(f"{origin}/", each) for each in named]
        for address in dict.fromkeys(addresses) if named else [f"{origin}/sitemap.xml"]:
            if request := self._sitemap(SitemapEntry(address, is_sitemap=True), site, level=1):
                yield request

    async def parse_sitemap(self, response: Response, site: str, level: int) -> AsyncIterator[Request]:
        """Yields requests for the listed pages on the sitemap's own site. Raises ParseError for a bad sitemap."""
        stats = self.crawler.stats
        sitemap: Sitemap = await self.read(parse_sitemap, response.body)
        for entry in sitemap.entries:
            if entry.is_sitemap:
                request = self._sitemap(entry, site, level + 1)
            elif load_sites().of(entry.url).name == site:
                stats.inc_value("harvester/sitemaps/listed")
                request = self.page_request(entry)
            else:
                stats.inc_value("harvester/sitemaps/elsewhere")
                continue
            if request is not None:
                yield request
        stats.inc_value("harvester/sitemaps/unread", len(sitemap.unread))
        stats.inc_value("harvester/sitemaps/cut" if sitemap.cut else "harvester/sitemaps/read")
        if sitemap.cut:
            said = "The sitemap %s is not whole: %s. Pages that it does not list are not fetched"
            self.logger.warning(said, without_user(response.url), sitemap.cut)

    def _sitemap(self, entry: SitemapEntry, site: str, level: int) -> Request | None:
        """Returns the request for a sitemap; None for an invalid or private address, or one that is nested too deeply.

        A sitemap may be on another host: many sites have it so.
        """
        if level > MOST_LEVELS or refuse_private(entry.url, self.config) or not is_address(entry.url):
            self.crawler.stats.inc_value("harvester/sitemaps/elsewhere")
            return None
        most = self.settings.getint("DOWNLOAD_MAXSIZE")
        return Request(
            entry.url,
            self.parse_sitemap,
            cb_kwargs={"site": site, "level": level},
            meta={"download_maxsize": max(most, MOST_BYTES) if most else most},
            priority=SITEMAP_PRIORITY,
            dont_filter=True,  # each crawl reads its lists afresh
        )


def _joined(base: str, address: str) -> str:
    """Resolves an address against the base; returns an invalid one unchanged."""
    try:
        return urljoin(base, address)
    except ValueError:
        return address
