"""Recognises a response that shows that the session of its request has ended."""

from typing import NamedTuple

from scrapy import Request
from scrapy.http import Response

from harvester.parsers.web.join import browser_join
from harvester.patterns import bounded_pattern
from harvester.sites.identities import Identities


class Expiry(NamedTuple):
    """The sign of an ended session."""

    reason: str
    is_redirect: bool = False
    """True if the response redirects to the login page."""


def expiry_of(request: Request, response: Response, table: Identities) -> Expiry | None:
    """Returns the sign of an ended session, or None. Raises TooCostlyError for a pattern that takes too long."""
    is_led = response.url != request.url
    if table.expired_url and is_led and bounded_pattern(table.expired_url).search(response.url):
        return Expiry("the browser was led to the login page")
    if table.expired_url and _leads_to(table.expired_url, response):
        return Expiry(f"HTTP {response.status} to the login page", is_redirect=True)
    return Expiry("HTTP 401") if response.status == 401 and table.signs_in else None


def _leads_to(pattern: str, response: Response) -> bool:
    """Returns True if a response redirects to a matching URL."""
    location = response.headers.get("Location")
    if location is None or not 300 <= response.status < 400:
        return False
    try:
        address = browser_join(response.url, location.decode("latin-1"))
    except ValueError:  # invalid: the redirect middleware reports it
        return False
    return bounded_pattern(pattern).search(address) is not None
