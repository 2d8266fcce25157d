"""Begins a crawl with the sitemaps of a site."""

from collections.abc import AsyncIterator, Iterator

from scrapy import Request
from scrapy.http import Response

from harvester.addresses import refuse_private
from harvester.middlewares.robots import RobotsMiddleware, origin_of
from harvester.parsers.sitemap import Entry, parse_sitemap
from harvester.sites import load_sites
from harvester.spiders.base import HarvesterSpider

MOST_LEVELS = 3
"""Of sitemaps that lead to sitemaps; the protocol allows two."""
SITEMAP_PRIORITY = 10
"""Above pages: a list is short, and says what there is to do."""


class SitemapSpider(HarvesterSpider):
    """The base of spiders that learn of pages from sitemaps. Give `page_request`, and in `start` ask:

    async for request in self.sitemap_requests("https://example.org/"):
        yield request
    """

    def page_request(self, entry: Entry) -> Request | None:
        """The request for a page that a sitemap lists; None to leave it out."""
        raise NotImplementedError

    async def sitemap_requests(self, url: str) -> AsyncIterator[Request]:
        """For the sitemaps that robots.txt of an address names, or else for its /sitemap.xml."""
        middleware = self.crawler.get_downloader_middleware(RobotsMiddleware)
        robots = await middleware.robots(url) if middleware else None
        named = robots.sitemaps if robots else []
        site = load_sites().of(url).name
        for address in dict.fromkeys(named) if named else [f"{origin_of(url)}/sitemap.xml"]:
            if request := self._sitemap(Entry(address, is_sitemap=True), site, level=1):
                yield request

    def parse_sitemap(self, response: Response, site: str, level: int) -> Iterator[Request]:
        """Requests for what it lists of its own site. Raises ParseError when it is no sitemap."""
        stats = self.crawler.stats
        for entry in parse_sitemap(response.body):
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
        stats.inc_value("harvester/sitemaps/read")

    def _sitemap(self, entry: Entry, site: str, level: int) -> Request | None:
        """It may lie on another host, as those of many sites do, but not in a private network."""
        is_elsewhere = load_sites().of(entry.url).name != site
        if level > MOST_LEVELS or (is_elsewhere and refuse_private(entry.url, self.config)):
            self.crawler.stats.inc_value("harvester/sitemaps/elsewhere")
            return None
        return Request(
            entry.url,
            self.parse_sitemap,
            cb_kwargs={"site": site, "level": level},
            priority=SITEMAP_PRIORITY,
            dont_filter=True,  # a list is read anew by each crawl
        )
