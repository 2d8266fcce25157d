"""User and password of an address authenticate its request, and are neither stored with records nor shown."""

from datetime import datetime

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.hosts import user_of, without_user
from harvester.items import Provenance
from harvester.masking import mask
from harvester.middlewares.addresses import AddressMiddleware

URL = "http://ann:hunter2@example.org:8080/a@b?c=d:e@f"


@pytest.mark.parametrize(
    ("url", "bare", "user"),
    [
        (URL, "http://example.org:8080/a@b?c=d:e@f", "ann:hunter2"),
        ("https://ann@example.org", "https://example.org", "ann"),
        ("https://example.org?x=a@b", "https://example.org?x=a@b", ""),
        ("https://example.org#a@b", "https://example.org#a@b", ""),
        ("https://example.org/a@b://c", "https://example.org/a@b://c", ""),
        ("https://[::1]:80/", "https://[::1]:80/", ""),
        ("", "", ""),
    ],
)
def test_an_address_is_told_without_its_user(url: str, bare: str, user: str) -> None:
    assert (without_user(url), user_of(url)) == (bare, user)


def test_no_record_tells_the_password_of_its_page() -> None:
    request = Request(URL)
    for page in (request, Response(URL, request=request)):
        seen = Provenance.of(page, "county", "")
        assert seen.url == "http://example.org:8080/a@b?c=d:e@f"
        assert isinstance(seen.fetched_at, datetime)


def test_what_is_shown_of_a_request_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log line, the reason of a dead letter, an exception's text."""
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    request = Request(URL)
    try:
        AddressMiddleware.from_crawler(get_crawler()).process_request(request)
        assert request.url == URL, "it still authenticates"
        shown = mask(f"Getting {request} took too long: hunter2")
    finally:
        mask.forget()
    assert "hunter2" not in shown
    assert "example.org:8080" in shown
