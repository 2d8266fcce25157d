"""Masks the secrets that this process knows in texts: a site may echo a cookie, a user's name, a token.

Code that learns a secret adds it to `mask`. Code that writes words which a site may have influenced (a reason, an
excerpt, a URL, an exception's text) writes `mask(words)`; log lines are masked automatically. Records and fetched
content are never changed.
"""

import json
import logging
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from html import escape
from threading import Lock
from typing import Any
from urllib.parse import quote, quote_plus, unquote

MASKED = "***"
LEAST, LEAST_INSIDE, MOST = 3, 6, 8192
"""Minimum length of a masked value; minimum length to mask it inside words, too; maximum length. In characters."""
MOST_PASSING = 300
"""Maximum number of known cookies and tokens; the oldest are forgotten, as they are no longer in use."""
_LETTERS, _DIGITS = 16, 16
"""Fewer letters, or fewer digits, alone in a cookie are a word, a number, a date or a host."""
_is_plain = re.compile(
    rf"[A-Za-z]{{0,{_LETTERS - 1}}}|[\d.,:;/_ +-]{{0,{_DIGITS - 1}}}|[a-z]{{2}}[-_][A-Za-z]{{2,4}}"
    r"|[a-z]+/[a-z.+*-]+|(?:https?://)?(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?/?|https?://[\w.:]+/?"
).fullmatch
"""Matches a cookie's or header's value that is harmless in any text: a word, a language, a type, a host."""
_COMMON = frozenset({"user", "admin", "password", "passwd", "secret", "token", "test", "guest", "root", "default"})
"""Names and passwords that are not masked, since people must be able to read these words."""


def is_telling(value: str) -> bool:
    """Returns True if the value may be a secret: no word, no number, not short."""
    return len(value) >= LEAST_INSIDE and not _is_plain(value)


class Mask:
    """Masks secrets: `mask.add(secret)`; `mask(text)`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lasting: dict[str, tuple[str, ...]] = {}
        """Lasting values, with their encoded forms."""
        self._passing: dict[str, tuple[str, ...]] = {}
        """Passing values, with their encoded forms, the newest last."""
        self._forms: tuple[str, ...] = ()
        self._longest = 0

    def add(self, *values: str) -> None:
        """Adds names and passwords of the settings, which are never forgotten."""
        new = [value for value in values if LEAST <= len(value) <= MOST and value.lower() not in _COMMON]
        self._take(self._lasting, new)

    def add_passing(self, *values: str) -> None:
        """Adds values from sites: tokens, cookies. Short values, words and numbers are not masked."""
        bare = (value.strip().strip('"') for value in values if len(value) <= MOST)
        self._take(self._passing, [value for value in bare if is_telling(value)])

    def __call__(self, text: str, most: int | None = None) -> str:
        """Returns the text without secrets, cut to `most` characters after masking, so no part of a secret is left."""
        if most is None:
            return self._masked(text)
        looked_at = 4 * most + self._longest
        if len(text) <= looked_at:
            return self._masked(text)[:most]
        return self._masked(text[:looked_at], 4 * most)[:most]

    def within(self, value: Any) -> Any:
        """Masks all strings in JSON-like data, except keys."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {name: self.within(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.within(each) for each in value]
        return value

    def forget(self) -> None:
        """Forgets all secrets."""
        with self._lock:
            self._lasting.clear()
            self._passing.clear()
            self._forms, self._longest = (), 0

    def _take(self, known: dict[str, tuple[str, ...]], values: list[str]) -> None:
        if not values or all(value in known for value in values):
            return
        with self._lock:
            for value in values:
                known[value] = known.pop(value, ()) or tuple(_forms_of(value))
            while len(self._passing) > MOST_PASSING:
                del self._passing[next(iter(self._passing))]
            every = {form for table in (self._lasting, self._passing) for forms in table.values() for form in forms}
            self._forms = tuple(every)
            self._longest = max(map(len, every), default=0)

    def _masked(self, text: str, end: int | None = None) -> str:
        """Masks the text up to `end`, or to the end of a secret at that point."""
        found = [span for form in self._forms if form in text for span in _places(form, text)]
        if not found:
            return text if end is None else text[:end]
        parts, at = [], 0
        for first, last in _merged(sorted(found)):
            if end is not None and first >= end:
                break
            parts += [text[at:first], MASKED]
            at = last
        return "".join([*parts, text[at:end] if end is None or at < end else ""])


def _forms_of(value: str) -> Iterator[str]:
    """Yields the plain value and its forms in URLs, pages, JSON and base64, also inside a longer text."""
    for plain in {value, unquote(value), " ".join(value.split())}:
        if len(plain) < LEAST:
            continue
        yield plain
        percent = quote(plain, safe="", errors="replace")
        yield from (percent, quote_plus(plain, errors="replace"), quote(plain, errors="replace"))
        yield from (quote(percent), re.sub("%..", lambda each: each[0].lower(), percent))
        html = escape(plain)
        yield from (html, html.replace("&#x27;", "&#39;"), html.replace("&quot;", '"').replace("&#x27;", "'"))
        yield from (json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1], repr(plain)[1:-1])
        yield json.dumps(plain)[1:-1].replace("/", "\\/")
        for text in (plain.encode("utf-8", "replace"),) if len(plain) >= LEAST_INSIDE else ():
            for before in range(3):
                inner = slice(-(-before * 4 // 3), (before + len(text)) * 4 // 3)  # bits of this value alone
                for encode in (b64encode, urlsafe_b64encode):
                    yield encode(b"\0" * before + text).decode()[inner]


def _places(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Yields the positions of a form; a short form counts only as a separate word."""
    at = text.find(form)
    while at >= 0:
        end = at + len(form)
        if len(form) >= LEAST_INSIDE or not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            yield at, end
        at = text.find(form, at + 1)


def _merged(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merges overlapping secrets."""
    first, last = spans[0]
    for start, end in spans[1:]:
        if start >= last:
            yield first, last
            first, last = start, end
        else:
            last = max(last, end)
    yield first, last


mask = Mask()
"""The mask of this process."""


class MaskedLogRecord(logging.LogRecord):
    """A log record that is always masked, with its traceback."""

    def getMessage(self) -> str:
        return mask(super().getMessage())

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("exc_text", "stack_info") and isinstance(value, str):
            value = mask(value)
        super().__setattr__(name, value)


def mask_log() -> None:
    """Masks all log lines of this process from now on."""
    logging.setLogRecordFactory(MaskedLogRecord)
