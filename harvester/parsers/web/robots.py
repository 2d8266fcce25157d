"""Parses robots.txt by RFC 9309: the group of a robot, and its rule for a path. Pure functions.

Protego, which Scrapy uses, takes a group of `harvest` or `h` for a group of `harvester`, does not recognize
`harvester/1.0`, and does not report which rule forbids a page.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

from harvester.decoding import as_utf8, certain_encoding

MOST_BYTES = 500 * 1024
"""Maximum number of bytes of a file that are read. RFC 9309 requires no more."""
AI_TOKENS = (
    "GPTBot",
    "ClaudeBot",
    "CCBot",
    "Google-Extended",
    "Applebot-Extended",
    "Bytespider",
    "meta-externalagent",
)
"""Robots that collect training data. A site that excludes them does not want to be training data."""
ANYONE = "*"

_DISALLOW = frozenset({"disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"})
_AGENT = frozenset({"user-agent", "useragent", "user agent"})
_DELAY = frozenset({"crawl-delay", "crawl delay"})
_SITEMAP = frozenset({"sitemap", "site-map"})
_KNOWN = _AGENT | _DISALLOW | _DELAY | _SITEMAP | {"allow", "request-rate", "content-usage"}
_EDGES = " \t\r\n\v\f\x00\x85\xa0\ufeff\u200b"
"""Characters around a line that are removed. Some programs leave invisible marks."""

_lines = re.compile(rb"\r\n?|\n").split
_token = re.compile(r"\*|[A-Za-z_-]*").match
_rate = re.compile(r"(\d{1,6})\s*/\s*(\d{1,6})\s*([smhd]?)").match
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_is_plain = re.compile(r"[A-Za-z0-9\-._~/?=&:@,+;!'()\[\]]*").fullmatch
_escape = re.compile(rb"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~/?=&:@,+;!'()\[\]%]").sub
_is_unreserved = re.compile(rb"[A-Za-z0-9\-._~]").fullmatch


class PathRule:
    """A rule about paths: `*` matches anything, and `$` at the end matches the end."""

    __slots__ = ("_anchored", "_first", "_last", "_middle", "allowed", "is_prefix", "length", "text")

    def __init__(self, pattern: str, text: str, allowed: bool) -> None:
        self.text = text
        """The line, unchanged."""
        self.allowed = allowed
        self._anchored = pattern.endswith("$")
        parts = [_normal(part) for part in re.split(r"\*+", pattern.removesuffix("$"))]
        self.length = sum(map(len, parts)) + len(parts) - 1 + self._anchored
        self._first = parts[0]
        self._middle, self._last = parts[1:-1], parts[-1] if len(parts) > 1 else None
        self.is_prefix = self._last is None and not self._anchored

    @property
    def prefix(self) -> str:
        """The prefix of all paths that the rule matches."""
        return self._first

    def matches(self, path: str) -> bool:
        """True if the rule matches a path in the form of `path_of`. Takes linear time for any pattern."""
        if not path.startswith(self._first):
            return False
        if self._last is None:
            return not self._anchored or len(path) == len(self._first)
        position = len(self._first)
        for part in self._middle:
            found = path.find(part, position)
            if found < 0:
                return False
            position = found + len(part)
        if self._anchored:
            return len(path) - len(self._last) >= position and path.endswith(self._last)
        return path.find(self._last, position) >= 0


class RobotsRules:
    """The rules of a robot. The longest matching rule counts, and Allow wins over Disallow of the same length."""

    def __init__(self, rules: Iterable[PathRule] = ()) -> None:
        self._rules = sorted(rules, key=lambda rule: (-rule.length, not rule.allowed))
        self._prefixes = tuple(rule.prefix for rule in self._rules if rule.is_prefix)
        self._others = [rule for rule in self._rules if not rule.is_prefix]

    def __len__(self) -> int:
        return len(self._rules)

    def of(self, path: str) -> PathRule | None:
        """Returns the rule that counts for a path in the form of `path_of`; None if no rule matches."""
        for rule in self._rules if path.startswith(self._prefixes) else self._others:
            if rule.matches(path):
                return rule
        return None


class UsageLine(NamedTuple):
    """A line about the permitted use of pages."""

    where: PathRule | None
    """None if the line holds for all pages."""
    said: str
    """For example `train-ai=n`."""
    text: str
    """The line, unchanged."""


@dataclass(slots=True, eq=False)
class RobotsGroup:
    """The lines for one robot."""

    rules: list[PathRule] = field(default_factory=list)
    delay_s: float = 0.0
    """Seconds between two requests: the larger value of Crawl-delay and Request-rate."""
    content_usages: list[UsageLine] = field(default_factory=list)
    """AIPREF: `Content-Usage: [path] train-ai=n`."""
    content_signals: list[UsageLine] = field(default_factory=list)
    """Cloudflare: `Content-Signal: search=yes, ai-train=no`."""


class Robots(NamedTuple):
    """The part of a robots.txt that concerns the requested robots."""

    groups: dict[str, RobotsGroup]
    """Groups by token in lower case."""
    sitemaps: list[str]

    def to(self, token: str) -> RobotsGroup:
        """Returns the group of a robot, or else the group for all others."""
        return self.groups.get(token.lower()) or self.groups.get(ANYONE) or RobotsGroup()


def parse_robots(body: bytes, tokens: Iterable[str]) -> Robots:
    """Parses the groups of the robots with these product tokens, and the group of `*`.

    Meaningless lines are skipped.
    """
    wanted = {ANYONE, *(token.lower() for token in tokens)}
    groups: dict[str, RobotsGroup] = {}
    sitemaps: list[str] = []
    current: list[RobotsGroup] = []
    complete = False  # True if the next User-agent line begins another group
    for name, value, text in _directives(body):
        if name in _AGENT:
            if complete:
                current, complete = [], False
            token = _token(value)
            agent = token[0].lower() if token else ""
            if agent in wanted:
                group = groups.setdefault(agent, RobotsGroup())
                if group not in current:
                    current.append(group)
        elif name in _SITEMAP:
            sitemaps.append(value)
        elif name == "allow" or name in _DISALLOW:
            complete = True
            if value and current:
                rule = PathRule(value, text, name == "allow")
                for group in current:
                    group.rules.append(rule)
        elif name == "content-usage":
            complete = True
            for group in current:
                group.content_usages.append(_usage(value, text))
        elif name == "content-signal":
            for group in current:
                group.content_signals.append(UsageLine(None, value, text))
        elif name in _DELAY or name == "request-rate":
            seconds = _seconds(value) if name in _DELAY else _interval(value)
            for group in current:
                group.delay_s = max(group.delay_s, seconds)
    return Robots(groups, sitemaps)


def path_of(url: str) -> str:
    """Returns path and query of an address as they are requested, in the form that rules are compared with."""
    rest = url.partition("://")[2].partition("#")[0]
    slash, question = rest.find("/"), rest.find("?")
    if slash < 0 or 0 <= question < slash:
        return _normal("/" + rest[question:] if question >= 0 else "/")
    path, question_mark, query = _normal(rest[slash:]).partition("?")
    return (_without_dots(path) if "/." in path else path) + question_mark + query


def _without_dots(path: str) -> str:
    """Removes dot segments: for `/a/../b` the client requests `/b` (RFC 3986, section 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    return "/" + "/".join([*kept, ""] if segments[-1] in (".", "..") else kept)


def _directives(body: bytes) -> Iterator[tuple[str, str, str]]:
    """Yields the name in lower case, the value, and the line itself."""
    if certain_encoding(body):
        body = as_utf8(body[: 4 * MOST_BYTES])
    lines = _lines(body[:MOST_BYTES])
    if len(body) > MOST_BYTES:
        lines.pop()  # half a path would forbid more than the whole path
    for line in lines:
        text = line.decode("utf-8", "surrogateescape").partition("#")[0].strip(_EDGES)
        if found := _directive(text):
            yield *found, text.encode("utf-8", "replace").decode()[:200]


def _directive(text: str) -> tuple[str, str] | None:
    """Returns name and value.

    Some files lack the colon. As Google does, a known name followed by one word is accepted.
    """
    name, colon, value = text.partition(":")
    name = name.rstrip().lower()
    if name not in _KNOWN and len(words := text.split()) == 2 and words[0].lower() in _KNOWN:
        return words[0].lower(), words[1]
    return (name, value.strip()) if colon else None


def _usage(value: str, text: str) -> UsageLine:
    if not value.startswith(("/", "*")):
        return UsageLine(None, value, text)
    where, *said = value.split(None, 1)
    return UsageLine(PathRule(where, text, allowed=True), " ".join(said), text)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        return 0.0
    return max(0.0, seconds) if isfinite(seconds) else 0.0


def _interval(value: str) -> float:
    """Returns the seconds between requests for a Request-rate like `1/10`, `30/1m`, `1/5 0900-1700`."""
    rate = _rate(value)
    if rate is None or rate[1].strip("0") == "":
        return 0.0
    return int(rate[2]) * _SECONDS[rate[3]] / int(rate[1])


def _normal(text: str) -> str:
    """Removes unnecessary escapes, and writes all other octets as escapes in upper case."""
    return text if _is_plain(text) else _escape(_escaped, text.encode("utf-8", "surrogateescape")).decode("ascii")


def _escaped(found: re.Match[bytes]) -> bytes:
    octets = found[0]
    if len(octets) == 1:
        return b"%%%02X" % octets[0]
    octet = bytes.fromhex(octets[1:].decode())
    return octet if _is_unreserved(octet) else octets.upper()
