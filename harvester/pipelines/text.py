"""Cleans texts of traces that programs left in them. Pure functions; the entry point is `clean_text`."""

import re
from typing import Literal
from unicodedata import is_normalized, normalize

from ftfy import fix_encoding
from ftfy.chardata import CHARMAP_ENCODINGS

from harvester.parsers.markup import plain, without_markup

MOST_PASSES = 16
"""Maximum number of passes. Removing a layer can uncover another; no human text has more layers."""


Markup = Literal["meant", "all", "none"]
"""The markup to remove: intended markup, everything that looks like markup, or none."""


def clean_text(text: str, markup: Markup = "meant") -> str:
    """Returns the text for people and language models; the same object when there is nothing to clean.

    - Encoding: mojibake is repaired, surrogates are paired or become U+FFFD, the normal form is NFC.
    - HTML: entities that end in `;` become characters. Removed are pairs of tags around words, and markup that only
      programs write: tags with attributes, `<br>`, comments, script and style with their contents. `<li>` starts a
      line with `- `, other blocks start a plain line. `vector<p>`, `<select>` alone, `a < b`, `<3` and tags unknown
      to HTML stay.
    - Markdown: markers of emphasis and code are removed, `[text](address)` becomes `text (address)`. Headings,
      quotations, bullets, `#tag`, snake_case, 2*3*4, `__init__`, a lone backtick and shrugs stay. Code that would
      itself look like markup keeps its marks.
    - Invisible: control and zero-width characters, soft hyphens, byte order marks, direction overrides and terminal
      colours are removed. Direction marks stay, and so do joiners in emoji and in the scripts that need them, and
      variation selectors behind their character.
    - White space: lines and their indentation stay; one space between words, none at the ends of lines, at most one
      blank line between paragraphs.

    With `markup` "all", all tags, backticks, the underscores of `__init__`, and the marks of headings and quotations
    are removed; with "none", HTML and Markdown stay unchanged. `clean_text(clean_text(x)) == clean_text(x)`.
    """
    for passes in range(2 * MOST_PASSES):
        if _is_clean(text):
            break
        if passes == MOST_PASSES:
            text = text.translate(_NO_MARKUP)
        cleaned = _clean_once(text, markup)
        if cleaned == text:
            break
        text = cleaned
    return text


def _is_clean(text: str) -> bool:
    """Returns True if the text certainly needs no cleaning. Most texts end here."""
    if not text:
        return True
    if _suspicious(text) or text[0] in _BLANK or text[-1] in _BLANK:
        return False
    if "  " in text or "](" in text or "# " in text or "> " in text or "~~" in text:
        return False
    if "\n" in text and (" \n" in text or "\n " in text or "\n\n\n" in text):
        return False
    return text.isascii() or (
        not _suspicious_beyond_ascii(text) and not _maybe_mojibake(text) and is_normalized("NFC", text)
    )


def _clean_once(text: str, markup: Markup) -> str:
    if _surrogate(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not text.isascii():
        text = normalize("NFC", fix_encoding(text) if _maybe_mojibake(text) else text)
    if _maybe_invisible(text):
        text = _invisible("\\1", _override("\\1", text))
    text = _line_break("\n", text)
    if markup == "meant":
        text = plain(text)
    elif markup == "all":
        text = without_markup(text)
    return _tidy(text)


def _tidy(text: str) -> str:
    if "  " in text or "\t" in text or not text.isascii():
        text = _spaces(" ", text)
        if not text.isascii():
            text = _indentation(lambda spaces: spaces[0].translate(_PLAIN_SPACES), text)
    if " \n" in text or "\t\n" in text:
        text = "\n".join([line.rstrip(" \t") for line in text.split("\n")])
    if "\n\n\n" in text:
        text = _blank_lines("\n\n", text)
    text = text.rstrip(" \t\n").lstrip("\n")
    return text if "\n" in text else text.lstrip(" \t")


def _mojibake() -> str:
    """Returns a pattern for the first two bytes of UTF-8 sequences misread in another encoding, or for C1 controls."""
    firsts = [re.escape(bytes(range(0xC2, 0xF5)).decode(encoding)) for encoding in CHARMAP_ENCODINGS]
    seconds = [re.escape(bytes(range(0x80, 0xC0)).decode(encoding)) for encoding in CHARMAP_ENCODINGS]
    pairs = "|".join(f"(?<=[{first}])[{second}]" for first, second in zip(firsts, seconds, strict=True))
    # The lookahead spares most characters the ten alternatives.
    following = f"(?=[{''.join(seconds)} ])(?:(?<=[ÂÃÅÎÐÙ]) |{pairs})"
    return f"[{''.join(firsts)}\x80-\x9f](?:(?<=[\x80-\x9f])|{following})"


# Ranges of characters, for use inside the brackets of a pattern.
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_BEFORE_JOINER = "\u00a9\u00ae\u203c\u2049\u20e3\u2122\u2139\u3030\u303d\u3297\u3299\ufe0f\U000e007f" + _EMOJI
_JOINING_SCRIPTS = (  # Arabic, Indic and related scripts, where joiners are spelling
    "\u0600-\u109f\u1780-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_ODD_SPACES = "\t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000\u3164\uffa0"
_LINE_BREAKS = "\r\x0b\x0c\x85\u2028\u2029"
_NEVER_SEEN = (  # control, zero-width, direction override, annotation and tag characters
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u180e\u200b\u202d\u202e\u2060-\u2065\u206a-\u206f\ufeff"
    "\ufff9-\ufffc\U000e0000-\U000e007f"
)
_FLAG = "\U0001f3f4[\U000e0020-\U000e007e]{1,16}\U000e007f"
_STRAY_SELECTOR = rf"[{_SELECTORS}](?<![^\s{_SELECTORS}].)"
_STRAY_JOINER = (
    f"\u200c(?<![{_JOINING_SCRIPTS}].)|\u200d(?<![{_JOINING_SCRIPTS}].)(?:(?<![{_BEFORE_JOINER}].)|(?![{_EMOJI}]))"
)

_BLANK = " \n"
_PLAIN_SPACES = dict.fromkeys([*map(ord, "\xa0\u1680\u202f\u205f\u3000\u3164\uffa0"), *range(0x2000, 0x200B)], " ")
_NO_MARKUP = dict.fromkeys(map(ord, "&<>*_`~[]#"))
_NEVER_CLEAN = f"\ud800-\udfff{_ODD_SPACES}{_LINE_BREAKS}{_NEVER_SEEN}"

_suspicious = re.compile(r"[&<*_`\x00-\x09\x0b-\x1f\x7f]").search
# A set of characters comes first: a pattern of alternatives is searched three times slower.
_suspicious_beyond_ascii = re.compile(
    f"[{_NEVER_CLEAN}{_SELECTORS}\u200c\u200d](?<=[{_NEVER_CLEAN}]|{_STRAY_SELECTOR}|{_STRAY_JOINER})"
).search
_maybe_mojibake = re.compile(_mojibake()).search
_maybe_invisible = re.compile(f"[{_NEVER_SEEN}{_SELECTORS}\u200c\u200d]").search
_surrogate = re.compile("[\ud800-\udfff]").search
_invisible = re.compile(
    f"({_FLAG})|\x1b\\[[0-9;]*[A-Za-z]|[{_NEVER_SEEN}]|{_STRAY_SELECTOR}|{_STRAY_JOINER}",
    re.DOTALL,
).sub
_line_break = re.compile(f"[{_LINE_BREAKS}](?:(?<=\r)\n)?").sub
_override = re.compile("[\u202d\u202e]([^\u202a-\u202e\u2066-\u2069\n]*+)\u202c?").sub
_spaces = re.compile(f"[ {_ODD_SPACES}](?<=[^\n {_ODD_SPACES}].)(?:[ {_ODD_SPACES}]++|(?<! ))").sub
_indentation = re.compile(f"^[ {_ODD_SPACES}]+", re.MULTILINE).sub
_blank_lines = re.compile("\n{3,}").sub
