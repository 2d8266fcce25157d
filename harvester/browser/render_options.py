"""What is wished of a page: the site's table, and what the request says otherwise."""

from pydantic import ValidationError
from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import UsageError
from harvester.sites import Site
from harvester.sites.browser import RenderOptions

RENDER = "render"
"""Key in Request.meta: whether a browser renders the page, whatever the site's entry says."""
RENDERING = "rendering"
"""Key in Request.meta: a dict like the table [<site>.browser], for this page."""
SIGN_IN = "harvester_sign_in"
"""Key in Request.meta of a login: the storage_state to begin with, or {}. The answer's holds the one after it."""
STORAGE_STATE = "storage_state"
"""Key in Request.meta, from the identities middleware: of the identity that asks, the file with its storage_state and
the generation of its session."""
CAPTURED = "captured"
"""Key in the meta of a rendered answer: the answers to the page's own requests that were wished for."""
LOST = "harvester_browsers_lost"
"""Key in Request.meta: how many browsers ended under it."""
LED = "harvester_led"
"""Key in the meta of a rendered answer: the browser has followed redirects, and they are told as Scrapy tells them."""


def render_options_of(request: Request, site: Site) -> RenderOptions:
    """The site's table with the request's own wishes in it. Raises UsageError that names each bad key."""
    own = request.meta.get(RENDERING)
    if not own:
        return site.browser
    try:
        return RenderOptions.model_validate(site.browser.model_dump() | own)
    except (ValidationError, TypeError) as error:
        lines = (
            [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
            if isinstance(error, ValidationError)
            else [str(error)]
        )
        raise UsageError(f"meta['rendering'] of {request.url} cannot be used: {'; '.join(lines)}") from None


def forget_answer(request: Request) -> None:
    """Takes out of meta what the answer of the page before has left there."""
    request.meta.pop(CAPTURED, None)
    if request.meta.pop(LED, False):
        request.meta.pop("redirect_urls", None)
        request.meta.pop("redirect_times", None)


def captured_of(response: Response) -> list[Response]:
    """What the page captured; nothing of an answer that no browser rendered."""
    return response.request.meta.get(CAPTURED, []) if response.request else []
