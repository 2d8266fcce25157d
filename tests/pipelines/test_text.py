"""clean_text: what goes, what stays, and that cleaning twice changes nothing."""

import random
import unicodedata

import pytest

from harvester.pipelines.text import _clean_once, _invisible, _is_clean, _maybe_invisible, clean_text

CHANGED = {
    # HTML
    "Tom &amp; Jerry": "Tom & Jerry",
    "&lt;b&gt;bold&lt;/b&gt; move": "bold move",
    "&amp;amp;lt;b&amp;gt;deep": "deep",
    "caf&eacute; &#128512; &#x1F600;": "café 😀 😀",
    "fish&nbsp;&nbsp;chips": "fish chips",
    "<b>bold</b> <i>and</i> <EM>more</EM>": "bold and more",
    "one<br>two<br/>three<br />four": "one\ntwo\nthree\nfour",
    "<p>one</p><p>two</p>": "one\n\ntwo",
    "<ul><li>one</li><li>two</li></ul>": "- one\n- two",
    '<a href="https://a.example/?x=1&amp;y=2" rel=nofollow>here</a>': "here",
    "a<script async>alert('x < y')</script>b<style>p {}</style>c": "abc",
    "a<!-- hidden -->b": "ab",
    "see <https://a.example/x>": "see https://a.example/x",
    "<<b>b>nested": "nested",
    # Markdown
    "**bold** and *em* and ***both***": "bold and em and both",
    "__bold__ and _em_": "bold and em",
    "**bold *em* bold**": "bold em bold",
    "これは**重要**です": "これは重要です",
    "_a snake_case name_": "a snake_case name",
    "use `code` or ``more code``": "use code or more code",
    "```python\nx = 1\n```": "x = 1",
    "~~wrong~~ right": "wrong right",
    "read [the docs](https://a.example/x_(y)) now": "read the docs (https://a.example/x_(y)) now",
    'see [it](https://a.example "A title")!': "see it (https://a.example)!",
    "[https://a.example](https://a.example)": "https://a.example",
    "![a cat](https://a.example/cat.jpg)": "a cat (https://a.example/cat.jpg)",
    "# Title\ntext\n### Part": "Title\ntext\nPart",
    "> quoted\n> > twice\nnot": "quoted\ntwice\nnot",
    # Invisible
    "zero\u200bwidth\u2060 \ufeffmark": "zerowidth mark",
    "soft\u00adhyphen": "softhyphen",
    "\u202eright-to-left\u202c \u2066isolate\u2069\u200f": "right-to-left isolate",
    "bell\x07 null\x00 delete\x7f": "bell null delete",
    "\x1b[1;31mred\x1b[0m": "red",
    "Auf\u200clage": "Auflage",
    "smuggled\U000e0041\U000e0042": "smuggled",
    "😀\ufe0f\ufe01\ufe02": "😀\ufe0f",
    " \ufe0fstray": "stray",
    "paired \ud83d\ude00, lone \ud800": "paired 😀, lone \ufffd",
    # Encoding
    "CafÃ© â€œquotedâ€\x9d": "Café “quoted”",
    "Ð¿Ñ€Ð¸Ð²ÐµÑ‚": "привет",
    "itâ€™s ðŸ˜€": "it’s 😀",
    "voilÃ  la": "voilà la",
    "e\u0301te\u0301": "été",
    # White space
    "a\u00a0b\u2003c\u3000d\te": "a b c d e",
    "  lead  and   trail  ": "lead and trail",
    "one \n two\r\nthree\rfour\u2028five": "one\ntwo\nthree\nfour\nfive",
    "one\n\n\n\ntwo\n \n \nthree": "one\n\ntwo\n\nthree",
    "\n\n \n": "",
}

UNCHANGED = [
    "",
    "plain text",
    "a < b and c > d",
    "I <3 you, not </3",
    "x<y>z, vector<string>, <name> and <sarcasm>irony</sarcasm>",
    "if a<b and c>d",
    "Pedro & Co.",
    "https://a.example/?a=1&copy=2&lt=3",
    "AT&T; R&D;",
    "snake_case, _private",
    "trailing_ and more_",
    "2*3*4 = 24, 2 * 3 * 4, 5* hotels and 4* hotels",
    "**kwargs and *args, f**k and sh*t",
    "__init__ and __main__",
    "https://a.example/_x_/*y*?z=_1_",
    "@_alice_ and #_tag_",
    "¯\\_(ツ)_/¯ (*^_^*) >_< ^_^ *-* (◕‿◕✿)",
    "#tag #1 C# is",
    "#️⃣ 1️⃣",
    "- one\n- two\n* three\n1. four",
    "array[0](x) [citation needed] [1](2)",
    "> 5 people, ->, >>> x",
    "~~~~~~",
    "5 ~~ 6",
    "`unclosed and it's",
    "👩🏽‍🚀 🏳️‍🌈 ❤️‍🔥 👨‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☺️",
    "می‌خواهم",
    "क्‍ष ന്‍",
    "葛\U000e0100城",
    "full ﬁ ligature ① ｆｕｌｌ",
    "replacement \ufffd stays",
    "Où est l’été — « là » ?",
    "Größe, naïve, Ünï, São Paulo, Łódź",
    "Ελληνικά, русский, українська «їжак», עברית, العربية, ไทย, 한국어",
    "Z̷a̷l̷g̷o̷",
    "one\n\ntwo",
]


@pytest.mark.parametrize(("text", "cleaned"), CHANGED.items())
def test_artefacts_are_removed(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


@pytest.mark.parametrize("text", UNCHANGED)
def test_what_only_looks_like_an_artefact_stays(text: str) -> None:
    assert clean_text(text) == text


def test_plain_text_is_returned_as_the_same_object() -> None:
    text = "Nothing to do here, in " + "any language: été, 日本語, привет."
    assert clean_text(text) is text


FRAGMENTS = [
    *"&<>*_`~[]()#!\\/ \n\t\"'ab1;:=.-é",
    *"\r\x00\x1b\x85\x92\xa0\xad\u0301\u200b\u200c\u200d\u2028\u202e\u3000\ufe0f\ufeff\ufffd\ud800\udc00",
    *"ÃÂâ€œðŸ˜€Ð¿日يक्😀🏽🏴\U000e0067\U000e007f",
    *("&amp;", "&lt;", "&gt;", "&#x42;", "&#0;", "<b>", "</b>", "<br>", "<li>", "<script>", "</script>", "<!--", "-->"),
    *("**", "__", "~~", "```", "](https://a.example/", "> ", "# ", "  ", "\n\n\n", "[31m", "word", " and "),
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


def test_cleaning_twice_changes_nothing() -> None:
    for text in [*_texts(8_000, seed=1), *CHANGED, *UNCHANGED]:
        cleaned = clean_text(text)
        assert clean_text(cleaned) == cleaned, ascii(text)
        assert unicodedata.is_normalized("NFC", cleaned), ascii(text)
        cleaned.encode()


def test_the_short_cut_skips_only_what_cleaning_would_not_change() -> None:
    for text in _texts(8_000, seed=2):
        if _is_clean(text):
            assert _clean_once(text) == text, ascii(text)
        if not _maybe_invisible(text):
            assert _invisible("\\1", text) == text, ascii(text)


@pytest.mark.parametrize(
    "unit",
    ["<", "<a ", "<a x=", '<a x="', "<script>", "<!--", "&amp;", "&", "*a ", "**", "**a", "_a", "__a ", "`", "`a", "[",
     "[a](", "](https://a.example/(", "![", "# ", "> ", ">", "~~a ", "\u200d", "\ufe0f", "Ã", "â€", "\n ", " ",
     "<b", "&lt;"],
)  # fmt: skip
@pytest.mark.timeout(300)
def test_hostile_text_is_cleaned_in_bounded_time(unit: str) -> None:
    """Thirty times the longest post; what backtracks would take minutes."""
    cleaned = clean_text(unit * (90_000 // len(unit)))
    assert clean_text(cleaned) == cleaned


def test_absurdly_nested_markup_ends_without_markup() -> None:
    nested = "<" * 500 + "b" + ">b" * 500
    assert clean_text(nested) == clean_text(clean_text(nested))
    assert "<" not in clean_text(nested)
