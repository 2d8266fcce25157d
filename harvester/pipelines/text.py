"""Text as people wrote it, without what programs left in it. Pure functions; `clean_text` is the one to call."""

import re
from unicodedata import is_normalized, normalize

from ftfy import fix_encoding
from ftfy.chardata import CHARMAP_ENCODINGS

from harvester.pipelines.markup import plain_html, plain_markdown

MOST_PASSES = 16
"""Removing a layer can show another; nothing that people write has more layers than this."""


def clean_text(text: str) -> str:
    """The text for people and language models; the same object when there is nothing to clean.

    - Encoding: mojibake is repaired, surrogates are paired or become U+FFFD, the normal form is NFC.
    - HTML: entities that end in `;` become characters; tags go, with the contents of script and style. `<li>` starts
      a line with `- `, other blocks and `<br>` a plain one. `a < b`, `<3` and tags that HTML does not know stay.
    - Markdown: markers of emphasis, code, headings and quotations go. `[text](address)` becomes `text (address)`.
      Bullets, `#tag`, snake_case, 2*3*4, `__init__` and shrugs stay.
    - Invisible: control, zero-width and bidi control characters, soft hyphens, byte order marks and terminal colours
      go. Joiners stay in emoji and in the scripts that need them, variation selectors behind what they select.
    - White space: one space between words, none at the ends of lines, at most one blank line between paragraphs.

    `clean_text(clean_text(x)) == clean_text(x)`. So a tag that was quoted as code goes too.
    """
    for passes in range(2 * MOST_PASSES):
        if _is_clean(text):
            break
        if passes == MOST_PASSES:
            text = text.translate(_NO_MARKUP)
        cleaned = _clean_once(text)
        if cleaned == text:
            break
        text = cleaned
    return text


def _is_clean(text: str) -> bool:
    """Whether nothing in the text can need cleaning; False when in doubt. Most texts end here."""
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


def _clean_once(text: str) -> str:
    if _surrogate(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not text.isascii() and _maybe_mojibake(text):
        text = fix_encoding(text)
    text = plain_html(text)
    if _maybe_invisible(text):
        text = _invisible("\\1", text)
    return _tidy(plain_markdown(_line_break("\n", text)))


def _tidy(text: str) -> str:
    if not text.isascii():
        text = normalize("NFC", text)
    if "  " in text or "\t" in text or not text.isascii():
        text = _spaces(" ", text)
    if " \n" in text or "\n " in text:
        text = _around_line_break("\n", text)
    if "\n\n\n" in text:
        text = _blank_lines("\n\n", text)
    return text.strip(" \n")


def _mojibake() -> str:
    """A pattern: the first two bytes of a UTF-8 sequence as they look when read in another encoding, or C1 controls."""
    firsts = [re.escape(bytes(range(0xC2, 0xF5)).decode(encoding)) for encoding in CHARMAP_ENCODINGS]
    seconds = [re.escape(bytes(range(0x80, 0xC0)).decode(encoding)) for encoding in CHARMAP_ENCODINGS]
    pairs = "|".join(f"(?<=[{first}])[{second}]" for first, second in zip(firsts, seconds, strict=True))
    # The look ahead spares most characters the ten alternatives.
    following = f"(?=[{''.join(seconds)} ])(?:(?<=[ÂÃÅÎÐÙ]) |{pairs})"
    return f"[{''.join(firsts)}\x80-\x9f](?:(?<=[\x80-\x9f])|{following})"


# Ranges of characters, as they stand between the brackets of a pattern.
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_BEFORE_JOINER = "\u00a9\u00ae\u203c\u2049\u20e3\u2122\u2139\u3030\u303d\u3297\u3299\ufe0f\U000e007f" + _EMOJI
_JOINING_SCRIPTS = (  # Arabic, Indic and their kin, where joiners are spelling
    "\u0600-\u109f\u1780-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_ODD_SPACES = "\t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000\u3164\uffa0"
_LINE_BREAKS = "\r\x0b\x0c\x85\u2028\u2029"
_NEVER_SEEN = (  # control, zero-width, bidi control, annotation and tag characters
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffc\U000e0000-\U000e007f"
)
_FLAG = "\U0001f3f4[\U000e0020-\U000e007e]{1,16}\U000e007f"
_STRAY_SELECTOR = rf"[{_SELECTORS}](?<![^\s{_SELECTORS}].)"
_STRAY_JOINER = (
    f"\u200c(?<![{_JOINING_SCRIPTS}].)|\u200d(?<![{_JOINING_SCRIPTS}].)(?:(?<![{_BEFORE_JOINER}].)|(?![{_EMOJI}]))"
)

_BLANK = " \n"
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
_spaces = re.compile(f"[ {_ODD_SPACES}](?:[ {_ODD_SPACES}]++|(?<! ))").sub
_around_line_break = re.compile(" \n ?|\n ").sub
_blank_lines = re.compile("\n{3,}").sub
