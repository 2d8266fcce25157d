"""Every dialect in which a site speaks of training and text mining is read, and any refusal wins."""

import json

import pytest

from harvester.items import Usage
from harvester.parsers.web.robots import AI_TOKENS, parse_robots
from harvester.parsers.web.usage import (
    HEADER,
    MOST_HEAD,
    Signal,
    SiteFiles,
    header_signals,
    html_signals,
    parse_tdmrep,
    refuses,
    tdm,
    usage_of,
)

US = "harvester"
URL = "https://example.org/news/a.html?page=2"


def verdicts(usage: Usage | None) -> tuple[str, str] | None:
    """Training, mining."""
    return (usage.training, usage.mining) if usage else None


def page(headers: dict[str, str] | None = None, html: str = "") -> Usage | None:
    return usage_of([*header_signals(headers or {}, US), *html_signals(html.encode(), US)])


def files(robots: str = "", tdmrep: object = None, ai: str = "", url: str = URL) -> Usage | None:
    parsed = parse_robots(robots.encode(), [US, *AI_TOKENS])
    return usage_of(SiteFiles(parsed, json.dumps(tdmrep).encode(), ai.encode(), US).signals(url))


REFUSED, ALLOWED, BOTH, NEITHER = ("refused", "unknown"), ("allowed", "unknown"), ("refused",) * 2, ("allowed",) * 2
SILENT = ("unknown", "unknown")

HEADERS: list[tuple[dict[str, str], tuple[str, str] | None]] = [
    ({"content-usage": "train-ai=n"}, REFUSED),
    ({"content-usage": "search=y, train-ai=n;x=1"}, REFUSED),
    ({"content-usage": "Train-AI=N"}, REFUSED),
    ({"content-usage": "train-ai=y"}, ALLOWED),
    ({"content-usage": "train-ai=n, train-ai=y"}, ALLOWED),
    ({"content-usage": "search=n"}, SILENT),
    ({"content-usage": "train-ai"}, SILENT),
    ({"tdm-reservation": "1"}, BOTH),
    ({"tdm-reservation": "0"}, NEITHER),
    ({"tdm-reservation": "yes"}, None),
    ({"x-robots-tag": "noai"}, REFUSED),
    ({"x-robots-tag": "noindex, NoImageAI"}, REFUSED),
    ({"x-robots-tag": "noindex"}, None),
    ({"x-robots-tag": "harvester: noai"}, REFUSED),
    ({"x-robots-tag": "gptbot: noindex, noai"}, REFUSED),
    ({"x-robots-tag": "otherbot: noai, noimageai"}, None),
    ({"x-robots-tag": "otherbot: noai, harvester: noai"}, REFUSED),
    ({"x-robots-tag": "unavailable_after: 25 Jun 2030 15:00:00 PST"}, None),
    ({"x-robots-tag": "max-snippet:-1, noai"}, REFUSED),
    ({"x-robots-tag": "Max-Image-Preview: large, max-video-preview:-1, noai"}, REFUSED),
    ({"x-robots-tag": "unavailable_after: 25 Jun 2010 15:00:00 PST, noai"}, REFUSED),
    ({"x-robots-tag": "unavailable_after: Wed, 25 Jun 2010 15:00:00 PST, noai"}, REFUSED),
    ({"x-robots-tag": "unavailable_after:2010-06-25T15:00:00-08:00, noai"}, REFUSED),
    ({"x-robots-tag": "harvester: max-snippet:-1, noai"}, REFUSED),
    ({"x-robots-tag": "otherbot: noindex, max-snippet:-1, noai"}, None),
    ({"x-robots-tag": "otherbot: noindex\nnoai"}, REFUSED),
    ({"x-robots-tag": "noindex\notherbot: noai"}, None),
    ({"content-usage": "train-ai=y", "x-robots-tag": "noai"}, REFUSED),
    ({"content-usage": "train-ai=y", "tdm-reservation": "1"}, BOTH),
]


@pytest.mark.parametrize(("headers", "told"), HEADERS, ids=[str(each[0]) for each in HEADERS])
def test_headers_are_read(headers: dict[str, str], told: tuple[str, str] | None) -> None:
    assert verdicts(page(headers)) == told


HTML: list[tuple[str, tuple[str, str] | None]] = [
    ('<meta name="robots" content="noai">', REFUSED),
    ('<META CONTENT="index, NOAI" NAME=Robots>', REFUSED),
    ("<meta content='noimageai' name='robots'/>", REFUSED),
    ('<meta name="harvester" content="noai">', REFUSED),
    ('<meta name="robots" content="max-snippet:-1, max-image-preview:large, noai">', REFUSED),
    ('<meta name="robots" content="unavailable_after: 25 Jun 2010 15:00:00 PST,noai">', REFUSED),
    ('<meta name="otherbot" content="noai">', None),
    ('<meta name="robots" content="noindex">', None),
    ('<meta name="description" content="what noai means">', None),
    (
        '<meta name="tdm-reservation" content="1"><meta name="tdm-policy" content="https://a.example/p?a=1&amp;b=2">',
        BOTH,
    ),
    ('<meta name="tdm-reservation" content="0">', NEITHER),
    ('</head><body><meta name="robots" content="noai">', None),
    ("<meta " * 5_000 + 'name="robots" content="noai">', REFUSED),
    (" " * MOST_HEAD + '<meta name="robots" content="noai">', None),
]


@pytest.mark.parametrize(("html", "told"), HTML, ids=[each[0][:60] for each in HTML])
def test_meta_elements_of_the_head_are_read(html: str, told: tuple[str, str] | None) -> None:
    assert verdicts(page(html=f"<html><head>{html}")) == told


ROBOTS: list[tuple[str, tuple[str, str] | None]] = [
    ("User-agent: *\nContent-Usage: train-ai=n\nAllow: /", REFUSED),
    ("User-agent: *\nContent-Usage: /news/ train-ai=n", REFUSED),
    ("User-agent: *\nContent-Usage: /shop/ train-ai=n", None),
    ("User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /news/ train-ai=y", ALLOWED),
    ("User-agent: *\nContent-Usage: /news/ train-ai=y\nContent-Usage: /news/ train-ai=n", REFUSED),
    ("User-agent: *\nContent-Usage: train-ai=n\nUser-agent: harvester\nContent-Usage: train-ai=y", ALLOWED),
    ("User-agent: *\nContent-Usage: train-ai=n\nUser-agent: harvester\nDisallow: /x", REFUSED),
    ("User-agent: *\nContent-Signal: search=yes,ai-train=no\nAllow: /", REFUSED),
    ("User-agent: *\nContent-Signal: search=yes, ai-train=yes", ALLOWED),
    ("User-agent: *\nContent-Signal: search=yes, ai-input=no", SILENT),
    ("User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /\n\nUser-agent: *\nAllow: /", REFUSED),
    ("User-agent: Google-Extended\nDisallow: /shop/", None),
    ("User-agent: Bytespider\nAllow: /", None),
    ("User-agent: META-ExternalAgent\nDisallow: /news", REFUSED),
    ("User-agent: otherbot\nDisallow: /", None),
    ("", None),
]


@pytest.mark.parametrize(("robots", "told"), ROBOTS, ids=[each[0] for each in ROBOTS])
def test_robots_txt_is_read(robots: str, told: tuple[str, str] | None) -> None:
    assert verdicts(files(robots)) == told


@pytest.mark.parametrize("token", AI_TOKENS)
def test_who_shuts_out_a_collector_of_training_data_refuses_training(token: str) -> None:
    usage = files(f"User-agent: {token}\nDisallow: /\n")
    assert usage == Usage("refused", "unknown", (f"robots.txt {token}: Disallow: /",))


def entry(location: str, reservation: object, policy: str = "") -> dict[str, object]:
    return {"location": location, "tdm-reservation": reservation, **({"tdm-policy": policy} if policy else {})}


TDMREP: list[tuple[object, tuple[str, str] | None]] = [
    ([entry("/*", 1, "https://example.org/policy.json")], BOTH),
    ([entry("/*", 0)], NEITHER),
    ([entry("/news/", 0), entry("/*", 1)], NEITHER),
    ([entry("/*", 1), entry("/news/", 0)], BOTH),
    ([entry("/shop/", 1)], None),
    ([entry("*.html$", 1)], None),
    ([entry("/*", "maybe"), entry("/news/", "1")], BOTH),
    ([{"tdm-reservation": 1}, 7, None, entry("", 1)], None),
    ({"location": "/*", "tdm-reservation": 1}, None),
    ("text", None),
]


@pytest.mark.parametrize(("tdmrep", "told"), TDMREP, ids=[str(each[0]) for each in TDMREP])
def test_of_tdmrep_json_the_first_entry_that_matches_counts(tdmrep: object, told: tuple[str, str] | None) -> None:
    assert verdicts(files(tdmrep=tdmrep)) == told


@pytest.mark.parametrize("body", [b"", b"[", b"<html>", b"\xff\xfe", b"[" * 100_000, b'[{"location":"/","tdm-reserv'])
def test_a_tdmrep_json_that_is_none_says_nothing(body: bytes) -> None:
    assert parse_tdmrep(body) == []


AI_TXT: list[tuple[str, tuple[str, str] | None]] = [
    ("User-Agent: *\nDisallow: /", REFUSED),
    ("User-Agent: *\nDisallow: *.html", REFUSED),
    ("User-Agent: *\nDisallow: *.jpg\nAllow: *.html", ALLOWED),
    ("User-Agent: *\nDisallow: *.jpg", None),
    ("not a rule", None),
]


@pytest.mark.parametrize(("ai", "told"), AI_TXT, ids=[each[0] for each in AI_TXT])
def test_ai_txt_is_read(ai: str, told: tuple[str, str] | None) -> None:
    assert verdicts(files(ai=ai)) == told


FREE, RESERVED = tdm("0", "", HEADER, "header"), tdm("1", "", HEADER, "header")


@pytest.mark.parametrize("header", ["0", "1", None])
@pytest.mark.parametrize("meta", ["0", "1", None])
@pytest.mark.parametrize("file", ["0", "1", None])
def test_of_tdmrep_the_word_nearest_to_the_page_counts(file: str | None, header: str | None, meta: str | None) -> None:
    rules = [entry("/*", file)] if file else []
    signals = [
        *SiteFiles(None, json.dumps(rules).encode(), None, US).signals(URL),
        *header_signals({"tdm-reservation": header or ""}, US),
        *html_signals(f'<meta name="tdm-reservation" content="{meta or ""}">'.encode(), US),
    ]
    nearest = meta or header or file
    assert verdicts(usage_of(signals)) == {"0": NEITHER, "1": BOTH, None: None}[nearest]
    usage = usage_of(signals)
    assert len(usage.signals if usage else ()) == sum(each is not None for each in (file, header, meta))


def test_signals_are_kept_as_they_were_found_each_once_and_within_bounds() -> None:
    usage = page(
        {"content-usage": "train-ai=n", "x-robots-tag": "noai, noai", "tdm-reservation": "1", "tdm-policy": "/p"}
    )
    assert usage
    assert usage.signals == (
        "Content-Usage: train-ai=n",
        "X-Robots-Tag: noai",
        "header tdm-reservation=1 tdm-policy=/p",
    )
    many = usage_of(Signal(f"{number}" * 500, training=True) for number in range(100))
    assert many
    assert len(many.signals) == 20
    assert max(map(len, many.signals)) == 200


def test_a_refusal_wins_over_any_number_of_permissions() -> None:
    usage = usage_of([Signal("a", training=True, mining=True), Signal("b", training=False), Signal("c", training=True)])
    assert verdicts(usage) == ("refused", "allowed")
    assert refuses(usage)
    assert not refuses(None)
    assert not refuses(usage_of([Signal("a")]))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_what_a_site_says_is_read_in_each_encoding(encoding: str) -> None:
    page = '<html><head><meta name="robots" content="noai"></head></html>'.encode(encoding)
    assert usage_of([*html_signals(page, US)])
    rules = '[{"location": "/", "tdm-reservation": 1}]'.encode(encoding)
    assert len(parse_tdmrep(rules)) == 1
