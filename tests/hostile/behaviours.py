# ruff: noqa: E501  a table
"""What the hostile site does, what has to come of it, and what bounds it: one behaviour a host."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.hostile.wire import HTML, JSON, MB, OK, XML, bomb, drip, endless, head, later, page, png, twice

Answer = bytes | Iterable[bytes | float]
"""As it is sent; a number is a pause in seconds. What does not end is sent until nobody reads it any more."""

SIZE = "`HARVESTER_MAX_RESPONSE_MB`"
TIME = "`DOWNLOAD_TIMEOUT` for the whole answer"
HEAD = "the size of a head"
INWARD = "the address that is connected to"
SCHEME = "http and https only"
REDIRECTS = "`REDIRECT_MAX_TIMES`"
PICTURE = "bytes, pixels and decoded size of a picture"
NOTHING = "it is read as it is"
DECODING = "an answer that is not what its headers say is none"
TRIES = "the tries of its outcome"


class Behaviour(NamedTuple):
    """Of a host, at its address `/`."""

    name: str
    does: str
    answer: Callable[["Place"], Answer]
    outcome: str
    bound: str
    most_requests: int = 1
    """For `/`; each may be tried again as its outcome's policy says."""
    path: str = "/"
    """Where `answer` is given. Elsewhere the site answers well."""
    picture: str = ""
    """What comes of the picture of the page; empty: it has none."""


class Place(NamedTuple):
    """Where a behaviour can lead."""

    host: str
    """Its own, with the port."""
    canary: str
    """Host and port that nobody may ask."""
    inward: str
    """A name that leads there."""


def _same(answer: Answer) -> Callable[[Place], Answer]:
    return lambda place: answer


def _to(template: str, status: str = "HTTP/1.1 302 Found") -> Callable[[Place], Answer]:
    return lambda place: page(b"", "Location: " + template.format(**place._asdict()), status=status)


def _links(body: Callable[[Place], str]) -> Callable[[Place], Answer]:
    return lambda place: page(f"<title>links</title>{body(place)}".encode("utf-8", "surrogatepass"))


def _nested(levels: int) -> bytes:
    return b'{"title":' * levels + b"1" + b"}" * levels


_LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
_LOCATIONS = b"".join(b"<url><loc>http://x.example/%d</loc></url>" % n for n in range(5000))
_FINE = b"<title>fine</title>"
_START = head(OK, *HTML, "Content-Length: 100000000000")
_CHUNKED = head(OK, *HTML, "Transfer-Encoding: chunked")
_LINKING_INWARD = (
    "<a href='http://{canary}/'>a</a><a href='http://{inward}/'>b</a><a href='http://good.example@{canary}/'>c</a>"
    "<a href='file:///etc/passwd'>d</a><a href='data:text/html,x'>e</a><a href='ftp://{canary}/'>f</a>"
    "<a href='http://2130706433:{port}/'>g</a><a href='http://[::ffff:127.0.0.1]:{port}/'>h</a>"
    "<a href='//127.1:{port}/'>i</a><a href='http://0x7f.0.0.1:{port}/'>j</a><a href='http://０:{port}/'>k</a>"
    "<a href='http://127。0。0。1:{port}/'>l</a><a href='javascript:alert(1)'>m</a><a href='http://[::1'>n</a>"
    "<a href='s3://bucket/key'>o</a><a href='http:///{canary}/'>p</a><a href='\\\\{canary}\\x'>q</a>"
)


def _inward_links(place: Place) -> str:
    return _LINKING_INWARD.format(canary=place.canary, inward=place.inward, port=place.canary.rpartition(":")[2])


# fmt: off
BEHAVIOURS = [
    # Too much
    Behaviour("bomb-gzip", "64 MB of zeros in gzip", lambda _: page(bomb("gzip"), *HTML, "Content-Encoding: gzip"), "invalid", SIZE),
    Behaviour("bomb-deflate", "the same in deflate", lambda _: page(bomb("deflate"), *HTML, "Content-Encoding: deflate"), "invalid", SIZE),
    Behaviour("bomb-br", "the same in brotli", lambda _: page(bomb("br"), *HTML, "Content-Encoding: br"), "invalid", SIZE ),
    Behaviour("bomb-zstd", "the same in zstd", lambda _: page(bomb("zstd"), *HTML, "Content-Encoding: zstd"), "invalid", SIZE ),
    Behaviour("twice", "compressed twice", lambda _: page(twice(_FINE), *HTML, "Content-Encoding: gzip, gzip"), "ok", NOTHING ),
    Behaviour("codings", "1,000 codings", lambda _: page(_FINE, *HTML, "Content-Encoding: " + ", ".join(["gzip"] * 1000)), "network", DECODING, 2),
    Behaviour("not-gzip", "says gzip, and is not", lambda _: page(_FINE, *HTML, "Content-Encoding: gzip"), "network", DECODING, 2),
    Behaviour("endless-body", "a body without end", lambda _: endless(_START, bytes(65536)), "invalid", SIZE),
    Behaviour("endless-unsaid", "the same, without a length", lambda _: endless(head(OK, *HTML), bytes(65536)), "invalid", SIZE),
    Behaviour("endless-chunks", "chunks without end", lambda _: endless(_CHUNKED, b"10000\r\n" + bytes(65536) + b"\r\n"), "invalid", SIZE),
    Behaviour("endless-extension", "an extension of a chunk without end", lambda _: endless(_CHUNKED + b"5;", b"x" * 65536), "timeout", TIME, 2),
    Behaviour("endless-trailers", "trailers without end", lambda _: endless(_CHUNKED + b"0\r\n", b"X-T: y\r\n" * 1000), "invalid", HEAD, 2),
    Behaviour("later-trailers", "too many trailers, after its body", lambda _: later(_CHUNKED + b"4\r\nfine\r\n0\r\n", b"X-T: y\r\n" * 20_000), "invalid", HEAD, 2),
    Behaviour("endless-status", "a status line without end", lambda _: endless(b"HTTP/1.1 200 ", b"x" * 65536), "invalid", HEAD),
    Behaviour("endless-header", "a header without end", lambda _: endless(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 65536), "invalid", HEAD),
    Behaviour("endless-headers", "headers without end", lambda _: endless(b"HTTP/1.1 200 OK\r\n", b"X-H: y\r\n" * 1000), "invalid", HEAD),
    Behaviour("endless-1xx", "interim answers without end", lambda _: endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100), "invalid", "20 interim answers"),
    Behaviour("endless-redirects", "redirects without end", _to("http://{host}/?n"), "invalid", REDIRECTS, 8),
    Behaviour("redirect-loop", "redirects to itself", _to("/"), "invalid", REDIRECTS, 8),
    # Too slow
    Behaviour("never", "never answers", lambda _: iter([3600.0]), "timeout", TIME, 2),
    Behaviour("drip-head", "a byte of a head now and then", lambda _: drip(b"HTTP/1.1 200 OK\r\nX-Slow: "), "timeout", TIME, 2),
    Behaviour("drip-body", "a byte of a body now and then", lambda _: drip(head(OK, *HTML)), "timeout", TIME, 2),
    # Broken off
    Behaviour("closes", "closes without a word", _same(b""), "network", TRIES, 4),
    Behaviour("closes-in-head", "closes within the head", _same(b"HTTP/1.1 200 OK\r\nContent-"), "network", TRIES, 4),
    Behaviour("closes-in-body", "closes within the body", _same(head(OK, *HTML, "Content-Length: 1000") + _FINE), "network", TRIES, 2),
    Behaviour("closes-in-chunk", "closes within a chunk", _same(_CHUNKED + b"ff\r\nabc"), "network", TRIES, 2),
    # Odd bytes and numbers in the head
    Behaviour("not-http", "no HTTP at all", _same(b"\x16\x03\x01\x00\x02\x02\x28\r\n\r\n" + bytes(100)), "invalid", TRIES ),
    Behaviour("odd-reason", "odd bytes in the status line", _same(page(_FINE, status="HTTP/1.1 200 \xff\x00é")), "ok", NOTHING ),
    Behaviour("odd-status", "the status 99999", _same(page(_FINE, status="HTTP/1.1 99999 Odd")), "invalid", TRIES),
    Behaviour("odd-values", "bytes that are no UTF-8 in headers", _same(page(_FINE, *HTML, b"X-Odd: \xff\xfe\x80")), "ok", NOTHING),
    Behaviour("odd-names", "odd bytes in names of headers", _same(page(_FINE, *HTML, b"X \xff(Odd): 1", b": 2", b"no colon")), "ok", NOTHING),
    Behaviour("odd-nul", "NUL in a header", _same(page(_FINE, *HTML, b"X-Nul: a\x00b")), "ok", NOTHING),
    Behaviour("odd-folded", "a folded header", _same(page(_FINE, *HTML, b"X-Fold: a\r\n b")), "ok", NOTHING),
    Behaviour("long-header", "a header of 100 kB", _same(page(_FINE, *HTML, "X-Long: " + "x" * 100_000)), "ok", NOTHING ),
    Behaviour("long-cookies", "1,000 cookies, for other hosts too", _same(page(_FINE, *HTML, *[f"Set-Cookie: c{n}=x; Domain=example.org" for n in range(1000)])), "ok", "cookies are not kept"),
    Behaviour("length-twice", "two lengths that differ", _same(head(OK, *HTML, "Content-Length: 19", "Content-Length: 5") + _FINE), "invalid", TRIES),
    Behaviour("length-negative", "a negative length", _same(head(OK, *HTML, "Content-Length: -5") + _FINE), "ok", NOTHING),
    Behaviour("length-words", "a length that is none", _same(head(OK, *HTML, "Content-Length: many") + _FINE), "ok", NOTHING),
    Behaviour("length-huge", "a length of 10^400", _same(head(OK, *HTML, "Content-Length: 1" + "0" * 400) + _FINE), "ok", NOTHING),
    Behaviour("chunks-odd", "a chunk whose size is none", _same(_CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n"), "invalid", TRIES ),
    Behaviour("chunks-odd-later", "the same, after its head", lambda _: later(_CHUNKED, b"zz\r\nabc\r\n0\r\n\r\n"), "invalid", TRIES),
    Behaviour("both-lengths", "a length and chunks", _same(head(OK, *HTML, "Content-Length: 5", "Transfer-Encoding: chunked") + b"13\r\n" + _FINE + b"\r\n0\r\n\r\n" ), "ok", NOTHING),
    Behaviour("retry-negative", "429, to be tried again in -5 seconds", _same(page(b"", "Retry-After: -5", status="HTTP/1.1 429 No")), "rate_limited", "the longest wait that is obeyed"),
    Behaviour("status-304", "304, unasked", _same(page(b"", status="HTTP/1.1 304 Not Modified")), "invalid", TRIES),
    Behaviour("status-206", "206, unasked", _same(page(_FINE, *HTML, "Content-Range: bytes 5-23/99", status="HTTP/1.1 206 Part")), "ok", NOTHING),
    Behaviour("status-204", "204 with a body", _same(page(_FINE, status="HTTP/1.1 204 No Content")), "invalid", TRIES),
    Behaviour("status-101", "101, unasked", _same(head("HTTP/1.1 101 Switching", "Upgrade: x", "Connection: upgrade") + b"x"), "invalid", TRIES),
    # Lies about the body
    Behaviour("type-lies", "a picture that is said to be HTML", _same(page(png(8, 8), *HTML)), "ok", NOTHING),
    Behaviour("type-odd", "a type of 50 kB", _same(page(_FINE, "Content-Type: " + "text/" * 10_000)), "ok", NOTHING),
    Behaviour("charset-utf7", "a charset that hides markup", _same(page(b"+ADw-title+AD4-x", "Content-Type: text/html; charset=utf-7")), "ok", NOTHING),
    Behaviour("charset-unknown", "a charset that is none", _same(page(_FINE, "Content-Type: text/html; charset=\x01quux")), "ok", NOTHING),
    Behaviour("charset-utf16", "UTF-16 without a mark", _same(page(_FINE.decode().encode("utf-16-le"), "Content-Type: text/html; charset=utf-16")), "ok", NOTHING),
    Behaviour("nul-body", "NUL and lone surrogates in a title", _same(page(b"<title>a\x00b&#xD800;\xed\xa0\x80</title>")), "ok", NOTHING),
    Behaviour("long-title", "a title of 1 MB", _same(page(b"<title>" + b"x" * MB)), "ok", "the text of a record"),
    Behaviour("deep-html", "20,000 elements in each other", _same(page(b"<div>" * 20_000 + _FINE)), "ok", NOTHING),
    # Formats
    Behaviour("json-deep", "JSON of 100,000 levels", _same(page(_nested(100_000), *JSON)), "layout_changed", TRIES, 2),
    Behaviour("json-number", "a number of 1 MB in JSON", _same(page(b'{"title":' + b"9" * MB + b"}", *JSON)), "layout_changed", TRIES, 2),
    Behaviour("json-surrogates", "lone surrogates in JSON", _same(page(b'{"title":"\\ud800"}', *JSON)), "layout_changed", TRIES, 2),
    Behaviour("sitemap-laughs", "entities that grow tenfold eleven times", _same(page(f'<?xml version="1.0"?><!DOCTYPE u [<!ENTITY l0 "ha">{_LAUGHS}]><urlset><url><loc>&l11;</loc></url></urlset>'.encode(), *XML) ), "ok", NOTHING),
    Behaviour("sitemap-file", "an entity that is a file", _same(page(b'<?xml version="1.0"?><!DOCTYPE u [<!ENTITY f SYSTEM "file:///etc/passwd">]><urlset><url><loc>&f;</loc></url></urlset>', *XML) ), "ok", NOTHING),
    Behaviour("sitemap-elsewhere", "5,000 addresses of another site", lambda _: page(b"<urlset>" + _LOCATIONS + b"</urlset>", *XML), "ok", "addresses of the site alone"),
    # Leading away
    Behaviour("to-canary", "a redirect to this machine", _to("http://{canary}/"), "policy_denied", INWARD),
    Behaviour("to-inward", "a redirect to a name that leads to it", _to("http://{inward}/"), "policy_denied", INWARD),
    Behaviour("to-userinfo", "the same behind a user's name", _to("http://good.example@{canary}/"), "policy_denied", INWARD ),
    Behaviour("to-mapped", "the same as IPv6", _to("http://[::ffff:127.0.0.1]:1/"), "policy_denied", INWARD),
    Behaviour("to-file", "a redirect to a file", _to("file:///etc/passwd"), "invalid", SCHEME),
    Behaviour("to-data", "a redirect to `data:`", _to("data:text/html,x"), "invalid", SCHEME),
    Behaviour("to-ftp", "a redirect to `ftp:`", _to("ftp://{canary}/"), "invalid", SCHEME),
    Behaviour("to-script", "a redirect to `javascript:`", _to("javascript:alert(1)"), "invalid", SCHEME),
    Behaviour("to-nowhere", "a redirect without a place", lambda _: page(b"", status="HTTP/1.1 302 Found"), "invalid", REDIRECTS),
    Behaviour("to-tls", "a redirect to TLS where there is none", _to("https://{host}/"), "network", TRIES, 2),
    Behaviour("to-long", "a redirect to an address of 100 kB", _to("/" + "x" * 100_000), "invalid", "`HARVESTER_MAX_URL_BYTES`" ),
    Behaviour("links-inward", "links to this machine, files, `data:`, in odd spellings", _links(_inward_links), "ok", INWARD ),
    Behaviour("links-many", "5,000 links to files", _links(lambda _: "<a href='file:///etc/passwd'>x</a>" * 5000), "ok", "requests of a page are known once"),
    Behaviour("links-long", "links of 100 kB", _links(lambda place: f"<a href='http://{place.host}/{'x' * 100_000}'>x</a>" * 3), "ok", "`HARVESTER_MAX_URL_BYTES`"),
    Behaviour("refresh", "`<meta http-equiv=refresh>` to this machine", _links(lambda p: f"<meta http-equiv=refresh content='0;http://{p.canary}/'>"), "ok", "only headers redirect"),
    # robots.txt
    Behaviour("robots-endless", "a robots.txt without end", lambda _: endless(_START, b"Disallow: /\n" * 5000), "invalid", SIZE, 12, "/robots.txt"),
    Behaviour("robots-loop", "a robots.txt that redirects to itself", _to("/robots.txt"), "ok", REDIRECTS, 9, "/robots.txt" ),
    Behaviour("robots-inward", "a robots.txt that redirects to this machine", _to("http://{canary}/robots.txt"), "policy_denied", INWARD, 2, "/robots.txt"),
    Behaviour("robots-odd", "a robots.txt of odd bytes", _same(page(bytes(range(256)) * 400, "Content-Type: text/plain")), "ok", NOTHING, 2, "/robots.txt"),
    # Pictures
    Behaviour("picture-pixels", "a picture of 2 kB with 60,000 x 60,000 pixels", lambda _: page(png(60_000, 60_000, b"x" * 2000)), "ok", PICTURE, 1, "/picture", "too_many_pixels"),
    Behaviour("picture-bomb", "a picture of 2 kB with 16 megapixels", lambda _: page(png(4000, 4000)), "ok", PICTURE, 1, "/picture", "stored"),
    Behaviour("picture-animated", "a picture of 2^31 frames", lambda _: page(png(8, 8, frames=2**31 - 1)), "ok", PICTURE, 1, "/picture", "stored"),
    Behaviour("picture-cut", "a picture that breaks off", lambda _: page(png(800, 800)[:60]), "ok", PICTURE, 1, "/picture", "truncated"),
    Behaviour("picture-none", "HTML instead of a picture", lambda _: page(), "ok", PICTURE, 1, "/picture", "not_an_image" ),
    Behaviour("picture-endless", "a picture without end", lambda _: endless(_START, bytes(65536)), "ok", "`HARVESTER_MAX_IMAGE_MB`", 1, "/picture", "too_large"),
    Behaviour("picture-inward", "a picture that redirects to this machine", _to("http://{inward}/"), "ok", INWARD, 1, "/picture", "policy_denied"),
    Behaviour("picture-path", "a picture whose name climbs out of its folder", lambda _: page(png(8, 8)), "ok", "names of files are checked", 0, "/picture", "bad_path"),
]
# fmt: on
