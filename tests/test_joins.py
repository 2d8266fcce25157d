r"""Where a page or a redirect leads is read as browsers read it: a backslash is a slash, and hides no host."""

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.config import load_config
from harvester.download.addresses import refuse_private
from harvester.middlewares.redirect import RedirectMiddleware
from harvester.parsers.web.join import browser_join
from harvester.parsers.web.links import next_link

BASE = "http://site.example/dir/page?q#f"
LEADS = {
    b"\\gz-ok?bs": "http://site.example/gz-ok?bs",
    b"\\\\evil.example\\path": "http://evil.example/path",
    b"/\\evil.example": "http://evil.example",
    b"///evil.example/x": "http://evil.example/x",
    b"http:\\\\evil.example\\a": "http://evil.example/a",
    b"https:/evil.example/a": "https://evil.example/a",
    b"http:/a": "http://site.example/a",
    b"http:a": "http://site.example/dir/a",
    b"/a\\b?c\\d": "http://site.example/a/b?c%5Cd",
    b"\x00\x1f /a \t": "http://site.example/a",
    b"/a\t\r\nb": "http://site.example/ab",
    b"/a b?c d": "http://site.example/a%20b?c%20d",
    "/café?q=ü".encode(): "http://site.example/caf%C3%A9?q=%C3%BC",
    "/café".encode("latin-1"): "http://site.example/caf%E9",
    b"/x%2Fy?sig=%27%2B": "http://site.example/x%2Fy?sig=%27%2B",
    b"//other.example/x": "http://other.example/x",
    "http://straße.example/".encode(): "http://xn--strae-oqa.example/",
}


def _redirected(location: bytes, base: str = BASE) -> Request:
    crawler = get_crawler(Spider)
    crawler.spider = Spider("any")
    middleware = RedirectMiddleware(crawler.settings)
    middleware.crawler = crawler
    response = Response(base, 302, headers={"Location": location})
    coroutine = middleware.process_response(Request(base.partition("#")[0]), response)
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    assert isinstance(stopped.value.value, Request)
    return stopped.value.value


@pytest.mark.parametrize("location", LEADS)
def test_a_redirect_leads_where_browsers_go(location: bytes) -> None:
    assert _redirected(location).url == LEADS[location]


@pytest.mark.parametrize(
    "location", [b"\\\\127.1\\x", b"/\\localhost/", b"///0x7f.1/", b"http:\\\\10.1", b"//%31%32%37.1/"]
)
def test_no_odd_redirect_hides_a_private_host(location: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "no")
    assert refuse_private(_redirected(location).url, load_config())


def test_links_are_joined_likewise() -> None:
    assert next_link([r'<\next?page=2>; rel="next"'], BASE) == "http://site.example/next?page=2"
    assert browser_join(BASE, "mailto:a@b") == "mailto:a@b"
    assert browser_join(BASE, ":a") == "http://site.example/dir/:a"
