"""Downloader middleware: follows redirects as Scrapy does; a failure becomes an outcome like all others."""

from scrapy import Request
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware as ScrapyMetaRefreshMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware as ScrapyRedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from harvester.exceptions import RedirectError
from harvester.internal_meta import KNOWN_VERDICT
from harvester.masking import mask
from harvester.middlewares.outcome import failed_on_its_way_back
from harvester.outcomes import Outcome
from harvester.parsers.web.join import browser_join

_STATUSES = (301, 302, 303, 307, 308)
_MOST_SHOWN = 200
"""Maximum number of characters of a URL in a message."""


class RedirectMiddleware(ScrapyRedirectMiddleware):
    """Replaces Scrapy's middleware, whose exceptions no other middleware sees: they are raised on the way back."""

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
        """Returns True if the request or its spider wants to see redirects."""
        wants = ("dont_redirect", "dont_retry", "handle_httpstatus_list", "handle_httpstatus_all")
        of_spider = getattr(self.crawler.spider, "handle_httpstatus_list", ())
        return any(request.meta.get(name) for name in wants) or response.status in of_spider


def _as_browsers_read(response: Response) -> Response:
    """Resolves Location like browsers: Scrapy and urljoin misread backslashes and `///host`. Raises ValueError."""
    given = response.headers.get("Location")
    if response.status not in _STATUSES or given is None:
        return response
    if not given.strip():
        return response.replace(headers={name: each for name, each in response.headers.items() if name != b"Location"})
    # Latin-1 preserves the bytes; Scrapy escapes them one by one, in whatever encoding they are.
    where = browser_join(response.url, given.decode("latin-1")).encode("latin-1")
    return response.replace(headers={**response.headers, "Location": where})


class MetaRefreshMiddleware(ScrapyMetaRefreshMiddleware):
    """Follows meta elements, which spiders of Scrapy follow. An element that leads nowhere is ignored."""

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        try:
            return super().process_response(request, response)
        except ValueError:  # an invalid URL, like javascript:
            return response
        except IgnoreRequest as error:
            times = request.meta.get("redirect_times", 0)
            said = f"it redirects again and again: after {times} redirects, a meta element leads on"
            return await failed_on_its_way_back(self.crawler, request, RedirectError(said), error)
