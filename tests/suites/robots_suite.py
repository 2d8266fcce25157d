"""google/robotstxt: the expectations of its test, which is C++, read as text."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from harvester.parsers.web.robots import RobotsRules, parse_robots, path_of
from tests.suites.result import Result

_tests = re.compile(r"^TEST\(RobotsUnittest, (\w+)\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL).findall
_tokens = re.compile(
    r'(?:const )?(?:absl::string_view|std::string) (?P<name>\w+)(?: =|\()\s*(?P<text>(?:"(?:[^"\\]|\\.)*"\s*)+)\)?;'
    r"|EXPECT_(?P<is>TRUE|FALSE)\(\s*IsUserAgentAllowed\((?P<given>.*?)\)\s*\);"
    r"|(?P<opens>^\s*\{)|(?P<closes>^\s*\})",
    re.MULTILINE | re.DOTALL,
).finditer
_literals = re.compile(r'"(?:[^"\\]|\\.)*"').findall
_argument = re.compile(r'\s*((?:"(?:[^"\\]|\\.)*"\s*)+|\w+)\s*(?:,|$)').match


def robotstxt(folder: Path) -> Iterator[Result]:
    """Those of `IsUserAgentAllowed` whose arguments are written out."""
    result = Result("google/robotstxt", "expectations of IsUserAgentAllowed")
    unread = Result(
        "google/robotstxt", "expectations that are made by loops and functions, not read", is_required=False
    )
    for name, body in _tests((folder / "robots_test.cc").read_text("utf-8")):
        known: list[dict[str, str]] = [{}]
        for token in _tokens(body):
            if token["opens"]:
                known.append({})
            elif token["closes"] and len(known) > 1:
                known.pop()
            elif token["name"]:
                known[-1][token["name"]] = _text(token["text"])
            elif token["is"]:
                values = _arguments(token["given"], known)
                if values is None:
                    unread.count(False, f"{name}: {' '.join(token['given'].split())[:60]}", is_chosen=True)
                    continue
                is_right = _is_allowed(*values) is (token["is"] == "TRUE")
                result.count(
                    is_right,
                    f"{name}: {values[1]} {values[2]}",
                    is_chosen=name in CHOSEN and values[2].endswith(CHOSEN[name]),
                )
    yield from (result, unread)


CHOSEN = {"ID_Encoding": "/foo/bar/baz", "GoogleOnly_IndexHTMLisDirectory": "/allowed-slash/"}
"""Test and end of an address. RFC 9309 has escaped letters be letters; only Google has index.html be its folder."""


def _is_allowed(robots: str, agent: str, url: str) -> bool:
    rules = parse_robots(robots.encode("latin-1"), [agent]).to(agent).rules
    rule = RobotsRules(rules).of(path_of(url))
    return rule is None or rule.allowed


def _arguments(given: str, known: list[dict[str, str]]) -> tuple[str, str, str] | None:
    values: list[str] = []
    at = 0
    while at < len(given):
        found = _argument(given, at)
        if found is None:
            return None
        at, word = found.end(), found[1].strip()
        value = (
            _text(word)
            if word.startswith('"')
            else next((each[word] for each in reversed(known) if word in each), None)
        )
        if value is None:
            return None
        values.append(value)
    return (values[0], values[1], values[2]) if len(values) == 3 else None


def _text(literals: str) -> str:
    """One of C++'s: its escapes are Python's, as far as they occur; its bytes are those of the file."""
    return "".join(str(ast.literal_eval(_as_bytes(each)).decode("latin-1")) for each in _literals(literals))


def _as_bytes(literal: str) -> str:
    return "b" + "".join(each if each.isascii() else "".join(f"\\x{b:02x}" for b in each.encode()) for each in literal)
