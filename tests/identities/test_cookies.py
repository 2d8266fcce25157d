"""What a site may leave in the jar of a session."""

from scrapy import Request
from scrapy.http import Response

from harvester.identities.cookies import MOST_BYTES, MOST_COOKIES, Jar

URL = "http://county.example/"


def answer(*cookies: bytes) -> Response:
    return Response(URL, headers={"Set-Cookie": list(cookies)})


def test_a_jar_keeps_no_more_and_no_larger_cookies_than_a_browser() -> None:
    jar = Jar()
    assert jar.take_in(answer(b"kept=1; path=/", b"large=" + b"x" * MOST_BYTES), Request(URL))
    assert not jar.take_in(answer(b"large=" + b"x" * MOST_BYTES), Request(URL))
    assert jar.has("kept")
    assert len(jar) == 1
    assert jar.take_in(answer(*(b"c%d=1; path=/" % number for number in range(3 * MOST_COOKIES))), Request(URL))
    assert len(jar) == MOST_COOKIES
    assert jar.has(f"c{3 * MOST_COOKIES - 1}")


def test_a_cookie_of_odd_bytes_costs_no_page() -> None:
    jar = Jar()
    assert jar.take_in(answer(b"a=caf\xe9; path=/", b"\xff\xfe=\x01", b"b=2"), Request(URL))
    request = Request(URL)
    jar.put_on(request)
    assert b"b=2" in (request.headers["Cookie"] or b"")
