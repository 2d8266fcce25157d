"""A response in the form that rules read. Costly properties are computed when a rule first reads them."""

import re
from functools import cached_property
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from scrapy import Request
from scrapy.http import Response

from harvester.decoding import as_utf8, certain_encoding, decode_text
from harvester.meta import EXPECTS
from harvester.outcomes.evidence import excerpt, readable

MOST_MARKUP = 20_000
"""Bytes of the unchanged page that rules search, and characters of visible text."""
MOST_PAGE = 64_000
"""Bytes of a page that the visible text is taken from. The state of a WebForms page may come first."""
MOST_ERROR = 64_000
"""Maximum number of bytes of a JSON body that is searched for an error."""
TAIL = 1024
"""Bytes at the end of an HTML page that must contain the site's page ending."""

LIKE_200 = (200, 201, 203)
"""Statuses of complete responses. A rule for 200 holds for all three."""
CONDITIONS = ("If-None-Match", "If-Modified-Since")
"""Headers that ask for a page only if it changed."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
"""Byte order mark and spaces."""
_CLOSING = {b"{": b"}", b"[": b"]"}

_is_text = re.compile(rb"json|html|xml|text/|\A\Z").search
_title = re.compile(r"<title[^>]{0,200}>([^<]{0,500})", re.IGNORECASE).search
_may_be_an_error = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:error|errors|code|message|msg|status|success|type)"'
).match
_begins_like_json = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*"|\[\s*\{\s*")').match
_asks_for_json = re.compile(
    r"/xrpc/app\.bsky\.|\.json(?:\?|$)|[?&](?:f|format|outputformat)=(?:p?json|geojson)\b", re.IGNORECASE
).search


class ApiError(NamedTuple):
    """The error in a JSON body."""

    name: str = ""
    """Name or code of the error; `code:<number>` if the body has a code and does not call it an error."""
    message: str = ""


NO_ERROR = ApiError()


class Answer:
    """A response as rules see it. Text that rules search is in small letters."""

    def __init__(self, response: Response, request: Request | None = None, ending: str = "") -> None:
        self.response = response
        self.request = request
        self.ending = ending
        """Text at the end of every complete HTML page of the site."""
        self.status = response.status
        self.content_type = header(response, b"Content-Type")
        self.body = _with_ascii(response.body, self.content_type)
        self.kind = self._kind()
        self.error = self._error()
        """Error in a JSON body. In a 200 it is searched only if the body begins like an error."""

    def _kind(self) -> str:
        """Returns the kind of the body, by Content-Type and first character: json, html, text or other."""
        said, first = self.content_type, self._first
        if b"json" in said:
            return "html" if first == b"<" else "json"
        if b"html" in said:
            return "json" if self._first in _CLOSING and (self.wants_json or self._begins_like_json) else "html"
        if b"text/plain" in said or b"javascript" in said or not said:  # ArcGIS serves JSON as text/plain
            if self._looks_like_json:
                return "json"
            return "html" if first == b"<" else "text"
        if b"octet-stream" in said and self._looks_like_json:
            return "json"
        return "other"

    @cached_property
    def _first(self) -> bytes:
        """The first character of the body that is not blank."""
        return self.body[:64].lstrip(_BLANK)[:1] or self.body.lstrip(_BLANK)[:1]

    @cached_property
    def _last(self) -> bytes:
        """The last character of the body that is not blank."""
        return self.body[-16:].rstrip()[-1:] or self.body.rstrip()[-1:]

    @property
    def _looks_like_json(self) -> bool:
        """True if a body without a JSON Content-Type is JSON: it was requested, or its beginning or end show it."""
        closing = _CLOSING.get(self._first)
        if closing is None:
            return False
        return self._last == closing or self.wants_json or self._begins_like_json

    @property
    def _begins_like_json(self) -> bool:
        return _begins_like_json(self.body) is not None

    def _error(self) -> ApiError:
        if self.kind != "json" or len(self.body) > MOST_ERROR:
            return NO_ERROR
        if self.status in LIKE_200 and not _may_be_an_error(self.body):
            return NO_ERROR
        return read_error(self.body)

    @cached_property
    def page(self) -> str:
        """The beginning of the body, decoded as browsers do."""
        return self._decoded(MOST_PAGE)

    @cached_property
    def small_page(self) -> str:
        return self.page.lower()

    @cached_property
    def markup(self) -> str:
        """The beginning of the body with its markup."""
        return self.small_page[:MOST_MARKUP]

    @cached_property
    def title(self) -> str:
        found = _title(self.page)
        return " ".join(unescape(found[1]).split()).lower() if found else ""

    @cached_property
    def readable(self) -> str:
        """The visible text of the page."""
        return readable(self.page)[:MOST_MARKUP]

    @cached_property
    def text(self) -> str:
        """The visible text of the page in small letters."""
        return self.readable.lower()

    @property
    def wants_json(self) -> bool:
        """True if JSON was requested, or if the Content-Type states JSON."""
        if self._has_no_body:
            return False
        if b"json" in self.content_type or _asks_for_json(self.response.url):
            return True
        if self.request is None:
            return False
        accept = self.request.headers.get("Accept") or b""
        return self.request.meta.get(EXPECTS) == "json" or (b"json" in accept and b"html" not in accept)

    @property
    def cut_short(self) -> bool:
        """True if the body is incomplete."""
        if self._has_no_body:
            return False
        if self.kind == "json":
            return not self._first or self._last != _CLOSING.get(self._first, self._last)
        if self.response.flags:  # decompressed, rendered or cached, so the length differs from Content-Length
            return "dataloss" in self.response.flags
        length = header(self.response, b"Content-Length")
        if length.isdigit() and len(self.response.body) < int(length):
            return True
        return (
            self.kind == "html" and bool(self.ending) and self.ending.lower().encode() not in self.body[-TAIL:].lower()
        )

    @property
    def conditional(self) -> bool:
        """True if the request asked for the page only if it changed. Also true if the request is unknown."""
        return self.request is None or any(name in self.request.headers for name in CONDITIONS)

    @property
    def _has_no_body(self) -> bool:
        """True if the request was a HEAD."""
        return self.request is not None and self.request.method == "HEAD"

    @property
    def bounced(self) -> bool:
        """True if a redirect led to another page than the requested one."""
        asked: list[str] = self.request.meta.get("redirect_urls", []) if self.request is not None else []
        return bool(asked) and urlsplit(asked[0]).path.lower() != urlsplit(self.response.url).path.lower()

    def excerpt(self) -> str:
        """Returns the beginning of the text, for people."""
        if self.kind == "html":
            return excerpt(self.readable)
        return excerpt(self._decoded(MOST_MARKUP)) if self.kind != "other" else ""

    def _decoded(self, most: int) -> str:
        if self.body is not self.response.body:
            return self.body[:most].decode("utf-8", "replace")
        return decode_text(self.body[:most], self.content_type.decode("latin-1"), prefers_utf8=self.kind == "json")


def _with_ascii(body: bytes, content_type: bytes) -> bytes:
    """Converts text in UTF-16 or UTF-32 to UTF-8, since rules search ASCII bytes. Returns any other body unchanged."""
    encoding = certain_encoding(body[:4]) if _is_text(content_type) else None
    return as_utf8(body) if encoding and encoding.startswith(("utf-16", "utf-32")) else body


def header(response: Response, name: bytes) -> bytes:
    """Returns a header by its normalized name. Headers.get would normalize the name, which is the slowest step here."""
    values = dict.get(response.headers, name)
    return values[-1] if values else b""


def read_error(body: bytes) -> ApiError:
    """Returns the error in a JSON body, in the shapes of known APIs; NO_ERROR if there is no error."""
    try:
        told = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NO_ERROR
    if not isinstance(told, dict):
        return NO_ERROR
    message = _text(told.get("message")) or _text(told.get("msg")) or _text(told.get("detail"))
    error = told.get("error")
    if isinstance(error, dict):  # ArcGIS, Google, Meta
        first = error.get("errors")
        reason = first[0].get("reason") if isinstance(first, list) and first and isinstance(first[0], dict) else None
        return ApiError(_text(reason) or _text(error.get("code")) or "error", _text(error.get("message")) or message)
    if error is True:  # Socrata
        return ApiError(_text(told.get("code")) or "error", message)
    if error:  # XRPC, Mastodon, OAuth
        return ApiError(_text(error), message or _text(told.get("error_description")))
    if isinstance(kind := told.get("type"), str) and "title" in told:  # RFC 9457
        return ApiError(re.split("[/:#]", kind)[-1], _text(told["title"]) or message)
    if told.get("code") and not isinstance(told["code"], (dict, list)):  # TikTok
        return ApiError(f"code:{told['code']}", message)
    return ApiError("", message)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
