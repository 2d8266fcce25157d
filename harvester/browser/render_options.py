"""The render options of a request: the site's table with the request's changes."""

from pydantic import ValidationError
from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import UsageError
from harvester.internal_meta import FLOWN, LED
from harvester.meta import CAPTURED, RENDERING
from harvester.sites import Site
from harvester.sites.browser import RenderOptions
from harvester.sites.problems import problems


def render_options_of(request: Request, site: Site) -> RenderOptions:
    """Returns the site's table with the request's changes. Raises UsageError that names each bad key."""
    own = request.meta.get(RENDERING)
    if not own:
        return site.browser
    try:
        return RenderOptions.model_validate(site.browser.model_dump() | own)
    except (ValidationError, TypeError) as error:
        lines = (
            [f"{place}: {said}" for place, said in problems(error, RenderOptions).items()]
            if isinstance(error, ValidationError)
            else [str(error)]
        )
        raise UsageError(f"meta['rendering'] of {request.url} cannot be used: {'; '.join(lines)}") from None


def forget_answer(request: Request) -> None:
    """Removes from meta what an earlier response has left there."""
    request.meta.pop(CAPTURED, None)
    request.meta.pop(FLOWN, None)
    if request.meta.pop(LED, False):
        request.meta.pop("redirect_urls", None)
        request.meta.pop("redirect_times", None)


def captured_of(response: Response) -> list[Response]:
    """Returns the captured responses; empty without a browser."""
    return response.request.meta.get(CAPTURED, []) if response.request else []
