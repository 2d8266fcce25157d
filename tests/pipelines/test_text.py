"""clean_text: what goes and what stays (texts.toml), and that cleaning twice changes nothing."""

import random
import tomllib
import unicodedata
from pathlib import Path
from typing import Any, cast

import pytest

from harvester.pipelines.text import Markup, _clean_once, _invisible, _is_clean, _maybe_invisible, clean_text

_table = Path(__file__).with_name("texts.toml").read_text("utf-8")
TEXTS: dict[Markup, dict[str, dict[str, str]]] = cast(Any, tomllib.loads(_table))
"""What is to be removed -> topic -> text -> cleaned text."""
EXAMPLES = [(*pair, markup) for markup, topics in TEXTS.items() for texts in topics.values() for pair in texts.items()]


@pytest.mark.parametrize(("text", "cleaned", "markup"), EXAMPLES)
def test_what_was_meant_as_markup_goes_and_what_was_typed_to_be_read_stays(
    text: str, cleaned: str, markup: Markup
) -> None:
    assert clean_text(text, markup) == cleaned


def test_surrogates_are_paired_or_replaced() -> None:
    """They cannot stand in a file."""
    assert clean_text("paired \ud83d\ude00, lone \ud800") == "paired 😀, lone \ufffd"


def test_plain_text_is_returned_as_the_same_object() -> None:
    text = "Nothing to do here, in " + "any language: été, 日本語, привет."
    assert clean_text(text) is text


FRAGMENTS = [
    *"&<>*_`~[]()#!\\/ \n\t\"'ab1;:=.-é",
    *"\r\x00\x1b\x85\x92\xa0\xad\u0301\u200b\u200c\u200d\u2028\u202e\u3000\ufe0f\ufeff\ufffd\ud800\udc00",
    *"ÃÂâ€œðŸ˜€Ð¿日يक्😀🏽🏴\U000e0067\U000e007f",
    *("&amp;", "&lt;", "&gt;", "&#x42;", "&#0;", "<b>", "</b>", "<br>", "<li>", "<script>", "</script>", "<!--", "-->"),
    *(
        "**",
        "__",
        "~~",
        "```",
        "```\n",
        "<p>",
        "</p>",
        "](https://a.example/",
        "> ",
        "# ",
        "  ",
        "\n\n\n",
        "[31m",
        "word",
        " and ",
    ),
]


def _texts(count: int, seed: int) -> list[str]:
    """Random texts: of what cleaning looks for, and of any characters."""
    chance = random.Random(seed)
    return [
        "".join(chance.choices(FRAGMENTS, k=chance.randrange(1, 14)))
        if chance.random() < 0.8
        else "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(1, 12)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("markup", list(TEXTS))
def test_cleaning_twice_changes_nothing(markup: Markup) -> None:
    for text in [*_texts(6_000, seed=1), *(text for text, *_ in EXAMPLES)]:
        cleaned = clean_text(text, markup)
        assert clean_text(cleaned, markup) == cleaned, ascii(text)
        assert unicodedata.is_normalized("NFC", cleaned), ascii(text)
        cleaned.encode()


def test_the_short_cut_skips_only_what_cleaning_would_not_change() -> None:
    for text in _texts(8_000, seed=2):
        if _is_clean(text):
            assert {_clean_once(text, markup) for markup in TEXTS} == {text}, ascii(text)
        if not _maybe_invisible(text):
            assert _invisible("\\1", text) == text, ascii(text)


@pytest.mark.parametrize(
    "unit",
    ["<", "<a ", "<a x=", '<a x="', "<script>", "<!--", "&amp;", "&", "*a ", "**", "**a", "_a", "__a ", "`", "`a", "[",
     "[a](", "](https://a.example/(", "![", "# ", "> ", ">", "~~a ", "\u200d", "\ufe0f", "Ã", "â€", "\n ", " ",
     "<b", "&lt;", "<b>", "</b>", "<b>a</b>", "<b></b>", "`a`", "```\n", "```\na\n", "``", "\t", " \n", "__a_",
     "\u202e"],
)  # fmt: skip
@pytest.mark.timeout(300)
def test_hostile_text_is_cleaned_in_bounded_time(unit: str) -> None:
    """Thirty times the longest post; what backtracks would take minutes."""
    for markup in TEXTS:
        cleaned = clean_text(unit * (90_000 // len(unit)), markup)
        assert clean_text(cleaned, markup) == cleaned


@pytest.mark.parametrize("markup", ["meant", "all"])
def test_absurdly_nested_markup_ends_without_markup(markup: Markup) -> None:
    nested = "<" * 500 + "b" + ">b" * 500 + "</b>" * 500 + "&" + "amp;" * 500 + "lt;" * 500
    cleaned = clean_text(nested, markup)
    assert clean_text(cleaned, markup) == cleaned
    if markup == "all":
        assert "<b" not in cleaned
