"""Parses what sites state about training and text mining, in all known dialects. Pure functions.

AIPREF (Content-Usage), Cloudflare's Content-Signal, TDMRep (tdmrep.json, headers, meta elements), ai.txt, `noai` in
X-Robots-Tag and meta elements, and robots.txt groups of robots that collect training data. Any refusal wins. In TDMRep,
however, only the statement nearest to the page counts: the meta element, else the header, else tdmrep.json.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from typing import NamedTuple

from harvester.decoding import as_utf8, certain_encoding
from harvester.exceptions import ParseError
from harvester.items import Usage
from harvester.parsers.json_text import read_json
from harvester.parsers.web.robots import AI_TOKENS, MOST_BYTES, PathRule, Robots, RobotsRules, parse_robots, path_of

MOST_HEAD = 64 * 1024
"""Maximum number of bytes of a page that are searched for meta elements. The search ends earlier if the head ends."""
MOST_LENGTH = 200
"""Maximum number of characters of a signal."""
MOST_SIGNALS = 20
FILE, HEADER, META = 1, 2, 3
"""Places of a TDMRep statement. The highest counts."""

_AI_TXT_TOKEN = "spawning-ai"
_NO_AI = frozenset({"noai", "noimageai"})
_has_value = re.compile(r"(?:max-|unavailable_after\b)", re.IGNORECASE).match
"""Directives of X-Robots-Tag and meta robots that are written as `name: value`."""
_is_robot = re.compile(r"[A-Za-z*][\w.*/-]*").fullmatch
_meta = re.compile(r"<meta\b([^<>]{1,2000})>", re.IGNORECASE).findall
_attribute = re.compile(r"""([a-z:-]{1,40})\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=]+))""", re.IGNORECASE).findall


class Signal(NamedTuple):
    """A statement of a site about the use of pages."""

    text: str
    """The place of the statement, and its text as found."""
    training: bool | None = None
    """True if it allows training, False if it refuses it; None if it does not mention training."""
    mining: bool | None = None
    """True if it allows text mining, False if it refuses it; None if it does not mention text mining."""
    tdm: int = 0
    """FILE, HEADER or META for TDMRep; else 0."""


class TdmRule(NamedTuple):
    """An entry of tdmrep.json."""

    where: PathRule
    signal: Signal


def usage_of(signals: Iterable[Signal]) -> Usage | None:
    """Combines signals into a result; None without any signal."""
    found = list(signals)
    if not found:
        return None
    nearest = max(signal.tdm for signal in found)
    counting = [signal for signal in found if signal.tdm in (0, nearest)]
    texts = dict.fromkeys(signal.text[:MOST_LENGTH] for signal in found)
    return Usage(
        _verdict(signal.training for signal in counting),
        _verdict(signal.mining for signal in counting),
        tuple(texts)[:MOST_SIGNALS],
    )


def refuses(usage: Usage | None) -> bool:
    """True if training or mining is refused."""
    return usage is not None and "refused" in (usage.training, usage.mining)


class SiteFiles:
    """The statements of a site's robots.txt, tdmrep.json and ai.txt. None stands for a missing file."""

    def __init__(self, robots: Robots | None, tdmrep: bytes | None, ai_txt: bytes | None, token: str) -> None:
        self._robots = robots
        groups = robots.groups if robots else {}
        self._collectors = {
            name: RobotsRules(groups[name.lower()].rules) for name in AI_TOKENS if name.lower() in groups
        }
        self._token = token
        self._tdm = parse_tdmrep(tdmrep) if tdmrep else []
        self._ai = (
            RobotsRules(parse_robots(ai_txt, [_AI_TXT_TOKEN]).to(_AI_TXT_TOKEN).rules) if ai_txt else RobotsRules()
        )

    def signals(self, url: str) -> list[Signal]:
        """Returns the statements about a page."""
        path = path_of(url)
        found = [*self._of_robots(path), *self._of_collectors(path)]
        if rule := self._ai.of(path):
            found.append(Signal(f"ai.txt {rule.text}", training=rule.allowed))
        found += [rule.signal for rule in self._tdm if rule.where.matches(path)][:1]
        return found

    def _of_robots(self, path: str) -> Iterator[Signal]:
        """Yields the signals of our own group in robots.txt; if it has no signals, the ones for all robots."""
        if self._robots is None:
            return
        groups = [self._robots.to(self._token), self._robots.groups.get("*")]
        for group in groups:
            if group and (group.content_usages or group.content_signals):
                matching = [each for each in group.content_usages if each.where is None or each.where.matches(path)]
                longest = max((each.where.length if each.where else 0 for each in matching), default=0)
                for each in matching:
                    if (each.where.length if each.where else 0) == longest:
                        yield content_usage(each.said, f"robots.txt {each.text}")
                for each in group.content_signals:
                    yield content_signal(each.said, f"robots.txt {each.text}")
                return

    def _of_collectors(self, path: str) -> Iterator[Signal]:
        shut_out: dict[str, list[str]] = {}
        for name, rules in self._collectors.items():
            rule = rules.of(path)
            if rule is not None and not rule.allowed:
                shut_out.setdefault(rule.text, []).append(name)
        for text, names in shut_out.items():
            yield Signal(f"robots.txt {', '.join(names)}: {text}", training=False)


def content_usage(value: str, text: str) -> Signal:
    """Parses AIPREF, a dictionary of labels: `train-ai=n, search=y`."""
    return Signal(text, training={"y": True, "n": False}.get(_pairs(value).get("train-ai", "")))


def content_signal(value: str, text: str) -> Signal:
    """Parses Cloudflare's signal: `search=yes, ai-input=no, ai-train=no`."""
    return Signal(text, training={"yes": True, "no": False}.get(_pairs(value).get("ai-train", "")))


def tdm(reservation: str, policy: str, where: int, text: str) -> Signal | None:
    """Parses TDMRep: text and data mining, which includes training, is reserved (1) or not (0)."""
    if reservation.strip() not in ("0", "1"):
        return None
    free = reservation.strip() == "0"
    said = f"{text} tdm-reservation={int(not free)}" + (f" tdm-policy={policy.strip()}" if policy.strip() else "")
    return Signal(said, training=free, mining=free, tdm=where)


def parse_tdmrep(body: bytes) -> list[TdmRule]:
    """Parses /.well-known/tdmrep.json, skipping meaningless entries. The first matching entry counts."""
    try:
        entries = read_json(body[: MOST_BYTES + 1])
    except ParseError:
        return []
    rules = []
    for entry in entries if isinstance(entries, list) else ():
        location = entry.get("location") if isinstance(entry, dict) else None
        if isinstance(location, str) and location:
            said = f"tdmrep.json {location}"
            signal = tdm(str(entry.get("tdm-reservation")), str(entry.get("tdm-policy") or ""), FILE, said)
            if signal:
                rules.append(TdmRule(PathRule(location, location, allowed=True), signal))
    return rules


def header_signals(headers: Mapping[str, str], token: str) -> Iterator[Signal]:
    """Yields the signals in a response's headers.

    Names are in lower case; several headers of a name are joined by commas, X-Robots-Tag by newlines.
    """
    if value := headers.get("content-usage"):
        yield content_usage(value, f"Content-Usage: {value}")
    if value := headers.get("x-robots-tag"):
        for line in value.split("\n"):
            yield from _no_ai(line, "X-Robots-Tag", token)
    if signal := tdm(headers.get("tdm-reservation", ""), headers.get("tdm-policy", ""), HEADER, "header"):
        yield signal


def html_signals(body: bytes, token: str) -> Iterator[Signal]:
    """Yields the signals in a page's meta elements."""
    if certain_encoding(body):
        body = as_utf8(body[: 4 * MOST_HEAD])
    head = body[: _end_of_head(body)].lower()
    if b"noai" not in head and b"noimageai" not in head and b"tdm-reservation" not in head:
        return
    metas: dict[str, str] = {}
    for attributes in _meta(body[: len(head)].decode("utf-8", "replace")):
        values = {name.lower(): double or single or bare for name, double, single, bare in _attribute(attributes)}
        name, content = values.get("name", "").strip().lower(), unescape(values.get("content", ""))
        metas.setdefault(name, content)
        if name in ("robots", token.lower()):
            yield from _no_ai(content, f"meta {name}", token)
    if signal := tdm(metas.get("tdm-reservation", ""), metas.get("tdm-policy", ""), META, "meta"):
        yield signal


def _end_of_head(body: bytes) -> int:
    for tag in (b"</head", b"<body", b"</HEAD", b"<BODY"):
        if (end := body.find(tag, 0, MOST_HEAD)) >= 0:
            return end
    return MOST_HEAD


def _no_ai(value: str, where: str, token: str) -> Iterator[Signal]:
    """Yields a refusal for `noai`, if it addresses all robots, us (`harvester: noai`) or collectors of training data.

    A robot's name holds up to the next robot's name: `otherbot: noindex, max-snippet:-1, harvester: noai`.
    """
    concerned = True
    whom = {token.lower(), *map(str.lower, AI_TOKENS), "*"}
    for part in value.split(","):
        name, said = _addressed(part.strip())
        if name:
            concerned = name.lower() in whom
        if said.lower() in _NO_AI and concerned:
            yield Signal(f"{where}: {part.strip()}", training=False)


def _addressed(part: str) -> tuple[str, str]:
    """Returns a robot's name and its directive.

    The name is empty for a plain directive, whose value may contain colons.
    """
    name, colon, said = part.partition(":")
    if not colon or not _is_robot(name.rstrip()) or _has_value(name):
        return "", part
    return name.rstrip(), said.strip()


def _pairs(value: str) -> dict[str, str]:
    """Parses `a=1;x, b=2`. If a name repeats, the last value counts."""
    pairs = (part.partition(";")[0].partition("=") for part in value.split(","))
    return {name.strip().lower(): said.strip().lower() for name, _, said in pairs}


def _verdict(words: Iterable[bool | None]) -> str:
    said = set(words)
    return "refused" if False in said else "allowed" if True in said else "unknown"
