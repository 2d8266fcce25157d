"""Downloader middleware: redirects are followed as Scrapy does; one that cannot be is an outcome like all others."""

from scrapy import Request
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware as ScrapyMetaRefreshMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware as ScrapyRedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from harvester.exceptions import RedirectError
from harvester.masking import mask
from harvester.meta import KNOWN_VERDICT
from harvester.middlewares.outcome import failed_on_its_way_back
from harvester.outcomes import Outcome
from harvester.parsers.web.join import browser_join

_STATUSES = (301, 302, 303, 307, 308)
_MOST_SHOWN = 200
"""Characters of an address."""


class RedirectMiddleware(ScrapyRedirectMiddleware):
    """In place of Scrapy's, whose exceptions no middleware hears of: they come up on an answer's way back."""

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        where = mask((response.headers.get("Location") or b"").decode("utf-8", "replace"), _MOST_SHOWN)
        try:
            follows = super().process_response(request, _as_browsers_read(response))
            if isinstance(follows, Response):
                follows = response
        except IgnoreRequest as error:
            cause: Exception = error
            times = request.meta.get("redirect_times", 0)
            said = f"it redirects again and again: after {times} redirects, HTTP {response.status} leads to {where}"
        except ValueError as error:
            cause = error
            said = f"HTTP {response.status} leads to {where}, which is no address: {error}"
        else:
            if follows is response and response.status in _STATUSES and not self._is_wanted(request, response):
                said = f"HTTP {response.status} leads to {where}, which is not asked" if where else "it leads nowhere"
                request.meta[KNOWN_VERDICT] = (Outcome.INVALID, said, "redirect")
            return follows
        return await failed_on_its_way_back(self.crawler, request, RedirectError(said), cause)

    def _is_wanted(self, request: Request, response: Response) -> bool:
        """Whether it is to be seen as it is."""
        wants = ("dont_redirect", "dont_retry", "handle_httpstatus_list", "handle_httpstatus_all")
        of_spider = getattr(self.crawler.spider, "handle_httpstatus_list", ())
        return any(request.meta.get(name) for name in wants) or response.status in of_spider


def _as_browsers_read(response: Response) -> Response:
    """Scrapy and urljoin would take a backslash for a letter, and `///host` for a path. Raises ValueError."""
    given = response.headers.get("Location")
    if response.status not in _STATUSES or given is None:
        return response
    if not given.strip():
        return response.replace(headers={name: each for name, each in response.headers.items() if name != b"Location"})
    # Latin-1 keeps the bytes; Scrapy escapes them one by one, as UTF-8 or as what else they are.
    where = browser_join(response.url, given.decode("latin-1")).encode("latin-1")
    return response.replace(headers={**response.headers, "Location": where})


class MetaRefreshMiddleware(ScrapyMetaRefreshMiddleware):
    """The same for meta elements, which spiders of Scrapy follow. One that leads nowhere is left alone."""

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        try:
            return super().process_response(request, response)
        except ValueError:  # it leads to what is no address, like javascript:
            return response
        except IgnoreRequest as error:
            times = request.meta.get("redirect_times", 0)
            said = f"it redirects again and again: after {times} redirects, a meta element leads on"
            return await failed_on_its_way_back(self.crawler, request, RedirectError(said), error)
