"""Whose rules they are, and what they say of a path: RFC 9309, vector by vector."""

import pytest

from harvester.parsers.web.robots import MOST_BYTES, RobotsRules, parse_robots, path_of

US = "harvester"


def verdict(robots: str | bytes, path: str, token: str = US) -> bool:
    body = robots.encode() if isinstance(robots, str) else robots
    rule = RobotsRules(parse_robots(body, [token]).to(token).rules).of(path_of(f"https://example.org{path}"))
    return rule is None or rule.allowed


def ours(*rules: str) -> str:
    return "\n".join(["User-agent: harvester", *rules])


VECTORS: list[tuple[str, str, str, bool]] = [
    # The longest match counts (section 2.2.2, and the examples of section 5.2).
    (
        "longest: disallow",
        ours("Allow: /example/page/", "Disallow: /example/page/secret"),
        "/example/page/secret",
        False,
    ),
    ("longest: allow", ours("Allow: /example/page/", "Disallow: /example/"), "/example/page/x", True),
    ("longest, in any order", ours("Disallow: /example/", "Allow: /example/page/"), "/example/page/x", True),
    (
        "5.2",
        ours("Allow: /example/page/", "Disallow: /example/page/disallowed.gif"),
        "/example/page/disallowed.gif",
        False,
    ),
    ("5.2, other page", ours("Allow: /example/page/", "Disallow: /example/page/x.gif"), "/example/page/y.gif", True),
    ("allow wins a tie", ours("Disallow: /page", "Allow: /page"), "/page", True),
    ("allow wins a tie, first", ours("Allow: /page", "Disallow: /page"), "/page", True),
    ("an asterisk counts as an octet", ours("Allow: /page", "Disallow: /pag*"), "/page", True),
    ("longer by an asterisk", ours("Allow: /page", "Disallow: /page*"), "/page", False),
    ("nothing matches", ours("Disallow: /private"), "/public", True),
    ("the root", ours("Disallow: /"), "/", False),
    ("no path", ours("Disallow: /"), "", False),
    ("query without path", ours("Disallow: /?"), "?q=1", False),
    ("case counts", ours("Disallow: /Private"), "/private", True),
    ("an empty Disallow forbids nothing", ours("Disallow:"), "/x", True),
    ("an empty Allow allows nothing more", ours("Allow:", "Disallow: /x"), "/x", False),
    ("the query counts", ours("Disallow: /page?id="), "/page?id=1", False),
    ("another query", ours("Disallow: /page?id="), "/page?name=1", True),
    ("a fragment does not count", ours("Disallow: /page$"), "/page#part", False),
    ("no slash, no rule", ours("Disallow: private"), "/private", True),
    # Wildcards.
    ("asterisk inside", ours("Disallow: /a*z"), "/a/b/c/z", False),
    ("asterisk for nothing", ours("Disallow: /a*z"), "/az", False),
    ("asterisk, wrong end", ours("Disallow: /a*z"), "/abc", True),
    ("asterisk at the end", ours("Disallow: /a*"), "/abc", False),
    ("asterisk at the start", ours("Disallow: *.gif"), "/x/y.gif", False),
    ("asterisks in a row", ours("Disallow: /a***z"), "/abz", False),
    ("parts do not overlap", ours("Disallow: /ab*ba$"), "/aba", True),
    ("anchored", ours("Disallow: /*.gif$"), "/x.gif", False),
    ("anchored, but there is more", ours("Disallow: /*.gif$"), "/x.gif?size=1", True),
    ("anchored, twice", ours("Disallow: /*.gif$"), "/a.gif/b.gif", False),
    ("anchored path", ours("Disallow: /x$"), "/x", False),
    ("anchored path, longer", ours("Disallow: /x$"), "/xy", True),
    ("only the end", ours("Disallow: /$"), "/", False),
    ("only the end, not all", ours("Disallow: /$"), "/x", True),
    ("a dollar inside is a dollar", ours("Disallow: /a$b"), "/a$b", False),
    ("an escaped dollar is a dollar", ours("Disallow: /a%24"), "/a$", False),
    ("an escaped asterisk is an asterisk", ours("Disallow: /file-%2A.html"), "/file-*.html", False),
    ("and nothing else", ours("Disallow: /file-%2A.html"), "/file-x.html", True),
    # Percent-encoding (the table of section 2.2.2).
    ("escapes, same", ours("Disallow: /foo/bar?baz=quz"), "/foo/bar?baz=quz", False),
    ("raw and escaped", ours("Disallow: /foo/bar/ツ"), "/foo/bar/%E3%83%84", False),
    ("escaped and escaped", ours("Disallow: /foo/bar/%E3%83%84"), "/foo/bar/%e3%83%84", False),
    ("escaped letters", ours("Disallow: /foo/bar/%62%61%7A"), "/foo/bar/baz", False),
    ("escaped letters asked for", ours("Disallow: /foo/bar/baz"), "/foo/bar/%62%61%7A", False),
    ("a reserved one stays apart", ours("Disallow: /a%2Fb"), "/a/b", True),
    ("a reserved one, the same", ours("Disallow: /a%2fb"), "/a%2Fb", False),
    ("a space", ours("Disallow: /a b"), "/a%20b", False),
    # Dots in an address: it is asked for without them.
    ("up", ours("Disallow: /private"), "/a/../private/x", False),
    ("here", ours("Disallow: /private"), "/./private", False),
    ("up beyond the root", ours("Disallow: /private"), "/../../private", False),
    ("up, escaped", ours("Disallow: /private"), "/a/%2e%2E/private", False),
    ("up from there", ours("Disallow: /private"), "/private/../a", True),
    ("up at the end", ours("Disallow: /a/$"), "/a/b/..", False),
    ("dots in a name", ours("Disallow: /.well-known/..x"), "/.well-known/..x", False),
    ("dots in the query", ours("Disallow: /a?b=/../c"), "/a?b=/../c", False),
    ("a lone percent sign", ours("Disallow: /100%/x"), "/100%/x", False),
    # Groups and tokens (section 2.2.1).
    ("case of the token", "User-Agent: HaRvEsTeR\nDisallow: /x", "/x", False),
    ("with a version", "User-agent: harvester/1.0\nDisallow: /x", "/x", False),
    ("a token that ours begins with", "User-agent: harvest\nDisallow: /x", "/x", True),
    ("a token that begins with ours", "User-agent: harvesters\nDisallow: /x", "/x", True),
    ("one letter of it", "User-agent: h\nDisallow: /", "/x", True),
    ("all others", "User-agent: *\nDisallow: /x", "/x", False),
    ("ours before all others", "User-agent: *\nDisallow: /\n\nUser-agent: harvester\nDisallow: /y", "/x", True),
    ("ours, empty", "User-agent: *\nDisallow: /\n\nUser-agent: harvester\nDisallow:", "/x", True),
    ("ours, without rules", "User-agent: *\nDisallow: /\n\nUser-agent: harvester", "/x", True),
    ("nobody's", "User-agent: other\nDisallow: /", "/x", True),
    ("two groups of ours, first", ours("Disallow: /x", "", ours("Disallow: /y")), "/x", False),
    ("two groups of ours, second", ours("Disallow: /x", "", ours("Disallow: /y")), "/y", False),
    (
        "two groups of ours, far apart",
        ours("Disallow: /x", "User-agent: o", "Allow: /", ours("Disallow: /y")),
        "/y",
        False,
    ),
    ("shared group", "User-agent: other\nUser-agent: harvester\nDisallow: /x", "/x", False),
    ("shared group, ours first", "User-agent: harvester\nUser-agent: other\nDisallow: /x", "/x", False),
    ("ours and all others, ours last", "User-agent: *\nUser-agent: harvester\nDisallow: /x", "/x", False),
    ("ours and all others, ours first", "User-agent: harvester\nUser-agent: *\nDisallow: /x", "/x", False),
    ("an empty line ends nothing", "User-agent: harvester\n\nDisallow: /x", "/x", False),
    ("a sitemap ends nothing", ours("Disallow: /x", "Sitemap: https://a.example/s.xml", "Disallow: /y"), "/y", False),
    ("a sitemap between names", "User-agent: harvester\nSitemap: /s.xml\nUser-agent: o\nDisallow: /x", "/x", False),
    ("a delay between names", "User-agent: harvester\nCrawl-delay: 1\nUser-agent: o\nDisallow: /x", "/x", False),
    ("rules before any name", "Disallow: /\nUser-agent: harvester\nDisallow: /x", "/y", True),
    # Lines.
    ("no colon", "User-agent harvester\nDisallow /x", "/x", False),
    ("no colon, all others", "user-agent *\ndisallow\t/x", "/x", False),
    ("no colon, Allow", "User-agent *\nDisallow /\nAllow /x", "/x", True),
    ("no colon but in the path", "User-agent: *\nDisallow /x:y", "/x:y", False),
    ("no colon, three words", "User-agent: *\nDisallow /x y", "/x", True),
    ("no colon, no name that is known", "User-agent: *\nForbid /x", "/x", True),
    ("a mark before each line", "\ufeffUser-agent: *\n\ufeff\u200bDisallow: /x", "/x", False),
    ("a NUL behind a line", "User-agent: *\x00\nDisallow: /x\x00", "/x", False),
    ("a comment", ours("Disallow: /x # not for robots"), "/x", False),
    ("a comment alone", ours("# Disallow: /x"), "/x", True),
    ("white space", "  user-agent :  harvester  \n\tDISALLOW\t:\t/x\t", "/x", False),
    ("CR", "User-agent: harvester\rDisallow: /x\r", "/x", False),
    ("CRLF", "User-agent: harvester\r\nDisallow: /x\r\n", "/x", False),
    ("a misspelt Disallow", ours("Dissallow: /x"), "/x", False),
    ("a web page", "<!doctype html><html><body>Disallow: /</body></html>", "/x", True),
    ("nothing", "", "/x", True),
]


@pytest.mark.parametrize(("robots", "path", "allowed"), [v[1:] for v in VECTORS], ids=[v[0] for v in VECTORS])
def test_a_path_is_allowed_as_the_rfc_says(robots: str, path: str, allowed: bool) -> None:
    assert verdict(robots, path) is allowed


def test_names_above_the_same_rules_share_them_whoever_else_is_asked_after() -> None:
    robots = parse_robots(b"User-agent: GPTBot\nUser-agent: *\nDisallow: /x\nCrawl-delay: 9", [US, "GPTBot"])
    for token in (US, "GPTBot"):
        assert ([rule.text for rule in robots.to(token).rules], robots.to(token).delay_s) == (["Disallow: /x"], 9)


def test_a_byte_order_mark_does_not_hide_the_first_group() -> None:
    assert not verdict(b"\xef\xbb\xbfUser-agent: harvester\nDisallow: /x", "/x")


def test_bytes_that_are_no_text_are_compared_as_they_are() -> None:
    assert not verdict(b"User-agent: harvester\nDisallow: /caf\xe9", "/caf%E9")
    assert verdict(b"User-agent: harvester\nDisallow: /caf\xe9", "/caf%C3%A9")


def test_the_first_500_kib_are_read_and_no_half_line_after_them() -> None:
    head = b"User-agent: harvester\nDisallow: /first\n"
    filled = head + b"#" * (MOST_BYTES - len(head) - len(b"\nDisallow: /")) + b"\nDisallow: /second\nDisallow: /third\n"
    assert filled[:MOST_BYTES].endswith(b"Disallow: /")
    assert not verdict(filled, "/first")
    assert verdict(filled, "/second")
    assert verdict(filled, "/other")


def test_the_rule_that_forbids_is_named() -> None:
    robots = parse_robots(b"User-agent: *\nDisallow: /\n  DISALLOW:  /a*b$  # why\n", [US])
    rule = RobotsRules(robots.to(US).rules).of("/axb")
    assert rule is not None
    assert rule.text == "DISALLOW:  /a*b$"


def test_sitemaps_belong_to_no_group() -> None:
    body = b"Sitemap: https://a.example/1.xml\nUser-agent: other\nSitemap: https://a.example/2.xml\nDisallow: /"
    assert parse_robots(body, [US]).sitemaps == ["https://a.example/1.xml", "https://a.example/2.xml"]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Crawl-delay: 2.5", 2.5),
        ("Crawl-delay: 0", 0),
        ("Crawl-delay: -3", 0),
        ("Crawl-delay: nan", 0),
        ("Crawl-delay: inf", 0),
        ("Crawl-delay: soon", 0),
        ("Request-rate: 1/10", 10),
        ("Request-rate: 30/1m 0900-1700", 2),
        ("Request-rate: 0/10", 0),
        ("Request-rate: x", 0),
        ("Crawl-delay: 1\nRequest-rate: 1/3", 3),
    ],
)
def test_a_delay_is_read_in_seconds(said: str, seconds: float) -> None:
    assert parse_robots(ours(said).encode(), [US]).to(US).delay_s == seconds


def test_a_delay_of_others_is_not_ours() -> None:
    robots = parse_robots(b"User-agent: slow\nCrawl-delay: 60\nUser-agent: *\nDisallow: /x", [US])
    assert robots.to(US).delay_s == 0


def test_hostile_files_are_read_in_time_that_grows_with_their_size() -> None:
    """Each would take hours where groups are multiplied with rules, or patterns are tried in every way."""
    agents = b"".join(b"User-agent: a%d\n" % number for number in range(15_000)) + b"User-agent: harvester\n"
    many = agents + b"".join(b"Disallow: /%d\n" % number for number in range(15_000))
    assert not verdict(many, "/14999")
    stars = ours("Disallow: /" + "*a" * 5_000 + "$")
    assert verdict(stars, "/" + "a" * 20_000 + "b")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_rules_are_read_in_each_encoding(encoding: str) -> None:
    body = "User-agent: *\nDisallow: /ü\nSitemap: https://a.example/s.xml\n".encode(encoding)
    assert not verdict(body, "/%C3%BC")
    assert verdict(body, "/x")
    assert parse_robots(body, ()).sitemaps == ["https://a.example/s.xml"]


def test_a_sitemap_without_colon_is_one() -> None:
    assert parse_robots(b"Sitemap https://a.example/s.xml\n", ()).sitemaps == ["https://a.example/s.xml"]
