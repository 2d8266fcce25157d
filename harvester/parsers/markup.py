"""Converts HTML and Markdown to plain text, for short texts of people. Pure functions.

Markup is removed if it was meant as markup: tags that open and close around words, links, emphasis. Text that was typed
to be read stays: `vector<p>`, `<select>` alone, `__init__`, a lone backtick. The patterns run in linear time on hostile
input, since a repeated part cannot match the part that follows it.
"""

import re
from collections import defaultdict
from html import unescape
from html.entities import html5

_TAGS = (
    "a|abbr|acronym|address|article|aside|audio|b|bdi|bdo|big|blockquote|body|br|button|canvas|center|cite|code|col|"
    "colgroup|dd|del|details|dfn|div|dl|dt|em|embed|fieldset|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|"
    "html|i|iframe|img|input|ins|kbd|label|legend|li|mark|marquee|meta|nav|noscript|ol|option|p|picture|pre|q|rp|rt|"
    "ruby|s|samp|script|section|select|small|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|textarea|"
    "tfoot|th|thead|title|tr|tt|u|ul|video|wbr"
)
"""HTML's elements, except those that people write as placeholders: <name>, <data>, <link>, ..."""
_NEW_LINE = re.compile(
    "(?:address|article|aside|blockquote|br|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|header|"
    "hr|nav|ol|option|p|pre|section|summary|table|tr|ul)"
).fullmatch
_VALUE = r"""(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=`]++)"""
_ATTRIBUTES = rf"(?:\s++(?:[a-z][\w:.-]*+\s*+=\s*+{_VALUE}|(?:async|defer|disabled|checked)\b))*+"

_VOID = frozenset({"br", "hr", "wbr"})
"""Elements without a closing tag that have a meaning without attributes."""
_tag = re.compile(rf"<(/?)({_TAGS})\b({_ATTRIBUTES})\s*+(/?)>", re.IGNORECASE)
_any_tag = re.compile(rf"</?[a-z][\w:.-]*+{_ATTRIBUTES}\s*+/?>", re.IGNORECASE)
_every_tag = re.compile(r"""</?[a-z](?:"[^"]*+"|'[^']*+'|[^"'>])*+>""", re.IGNORECASE)
_with_contents = re.compile(
    r"<(script|style)\b[^<>]*+>(?:(?!<\1\b).)*?</\1\s*+>|<!--(?:(?!<!--).)*?-->|<!doctype\b[^<>]*+>",
    re.IGNORECASE | re.DOTALL,
)
_autolink = re.compile(r"<((?:https?://|mailto:)[^\s<>]++)>")
_ampersands = re.compile("&(?:amp;)++")
_entity = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|([A-Za-z][A-Za-z0-9]{1,31}));")


def plain_html(text: str, *, every: bool = False) -> str:
    """Removes one layer of entities, tags, comments, scripts and styles.

    Tags that stand alone are removed only with `every`.
    """
    if "&" in text:
        text = _entity.sub(_character, _ampersands.sub("&", text))
    if "<" in text and ">" in text:
        text = _with_contents.sub("", text)
        text = _autolink.sub(r"\1", text)
        text = _any_tag.sub("", _tag.sub(_instead_of_tag, text)) if every else _without_tags(text)
    return text


def text_of_html(text: str, *, every: bool = False) -> str:
    """Returns the text that a browser shows for HTML. Tags are removed first, so entities never become tags.

    Without `every` the text may be plain: only tags are removed that `plain_html` takes for markup. With `every` each
    tag is removed.
    """
    if "<" in text and ">" in text:
        text = _with_contents.sub("", text)
        text = _every_tag.sub("", _tag.sub(_instead_of_tag, text)) if every else _without_tags(text)
    return _entity.sub(_character, text) if "&" in text else text


def _character(entity: re.Match[str]) -> str:
    name = entity[1]
    return unescape(entity[0]) if name is None or f"{name};" in html5 else entity[0]


def _without_tags(text: str) -> str:
    """Removes pairs of tags around words, and tags that only a program writes: with attributes, and `<br>`."""
    tags = list(_tag.finditer(text))
    meant: set[int] = set()
    opened: defaultdict[str, list[int]] = defaultdict(list)
    for index, tag in enumerate(tags):
        name = tag[2].lower()
        if not tag[1]:
            opened[name].append(index)
            if tag[3] or tag[4] or name in _VOID:
                meant.add(index)
        elif opened[name]:
            first = opened[name].pop()
            if first in meant or _is_around_words(text, tags[first].end(), tag.start()):
                meant.update((first, index))
    if not meant:
        return text
    parts: list[str] = []
    at = 0
    for index in sorted(meant):
        parts += text[at : tags[index].start()], _instead_of_tag(tags[index])
        at = tags[index].end()
    return "".join([*parts, text[at:]])


def _is_around_words(text: str, start: int, end: int) -> bool:
    """True if there is text between two tags.

    `write <b> and </b>` mentions the tags: there is a space on both sides.
    """
    if end - start < 2:
        return start < end and not text[start].isspace()
    return not (text[start] == text[end - 1] == " ") and not text[start:end].isspace()


def _instead_of_tag(tag: re.Match[str]) -> str:
    closing, name = tag[1], tag[2].lower()
    if _NEW_LINE(name):
        return "\n"
    return "" if closing else {"li": "\n- ", "td": " ", "th": " "}.get(name, "")


_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef"
"""Scripts that put no space between words."""
_FIRST = "[^\\W_]|[\"'“‘«¿¡@#]|[\u2190-\u2bff\U0001f000-\U0001faff]"
"""First characters of emphasised text. Other texts, such as (*^_^*), stay unchanged."""
_NOT_BEFORE = r"[\w*\\/@.=&?%#+^~-]"
_NOT_AFTER = rf"(?![^\W{_CJK}]|\*)"
_IN_UNDERSCORES = r"(?:[^_\n]|(?<=[^\W_])_(?=[^\W_]))"

# The marker stands before its lookbehind, since a pattern that starts with a character is searched ten times faster.
_star = re.compile(rf"\*(?<!{_NOT_BEFORE}.)(?={_FIRST})([^*\n]++)(?<![\s^_-])\*(?![\w*])")
_stars = re.compile(rf"\*\*(?<![^\W{_CJK}]..)(?<![*\\/]..)(\*?)(?![\s*])([^*\n]++)(?<!\s)\*\*\1{_NOT_AFTER}")
_underscore = re.compile(rf"_(?<!{_NOT_BEFORE}.)(?={_FIRST})({_IN_UNDERSCORES}+)(?<!\s)_(?!\w)")
_IN_PYTHON = r"(?![A-Za-z0-9]++(?:_[A-Za-z0-9]++)*+__)"
"""Excludes names like __init__."""
_underscores, _any_underscores = (
    re.compile(rf"__(?<!{_NOT_BEFORE}..){unless}(?![\s_])({_IN_UNDERSCORES}+)(?<!\s)__(?!\w)")
    for unless in (_IN_PYTHON, "")
)
_struck = re.compile(r"~~(?<!~..)(?![\s~])([^~\n]++)(?<!\s)~~(?!~)")
_fence = re.compile(r"^ *```+[\w+#-]* *\n((?:(?! *```).*\n)*+) *```+ *$", re.MULTILINE)
_code = re.compile(rf"`(?<!``)(?<![^\W{_CJK}]`)(`{{0,2}}+)(?![`\s])(?P<code>[^`\n]++)(?<!\s)`\1(?![^\W{_CJK}]|`)")
_any_fence = re.compile(r"^ *```+[\w+#-]* *(?:\n|\Z)", re.MULTILINE)
_link = re.compile(
    r"!?\[([^\[\]\n]*+)\]\( *+<?((?:https?://|mailto:|www\.)[^\s()<>]*+(?:\([^\s()<>]*+\)[^\s()<>]*+)*+)>?"
    r"""(?: ++(?:"[^"\n]*+"|'[^'\n]*+'))? *+\)"""
)
_heading = re.compile(r"^#{1,6} +(?=\S)", re.MULTILINE)
_quotation = re.compile(rf"^ ?(?:> ?)*+(?<=> )(?!\d)(?={_FIRST}|[*_(\[])", re.MULTILINE)


_kept = re.compile("\x00([0-9]+)\x00")
"""Placeholder for code that keeps its markers while the rest of the text is processed."""


def plain(text: str) -> str:
    """Removes one layer of text that was meant as markup. Lines must end in \\n, and \\0 must not occur."""
    if "`" not in text:
        return _plain_markdown(plain_html(text))
    kept: list[str] = []
    text = _fence.sub(lambda fence: _code_or_kept(fence[0], fence[1][:-1], kept), text)
    text = _code.sub(lambda code: _code_or_kept(code[0], code["code"], kept), text)
    text = _plain_markdown(plain_html(text))
    return _kept.sub(lambda place: kept[int(place[1])], text) if kept else text


def without_markup(text: str) -> str:
    """Removes one layer of everything that looks like markup. Lines must end in \\n."""
    text = plain_html(text, every=True)
    if "`" in text:
        text = _any_fence.sub("", text).replace("`", "")
    if "__" in text:
        text = _any_underscores.sub(r"\1", text)
    text = _plain_markdown(text)
    if "# " in text:
        text = _heading.sub("", text)
    if "> " in text:
        text = _quotation.sub("", text)
    return text


def _code_or_kept(marked: str, code: str, kept: list[str]) -> str:
    """Returns code without its markers; with them if a second pass would take the code for markup."""
    if _plain_markdown(plain_html(code)) == code:
        return code
    kept.append(marked)
    return f"\x00{len(kept) - 1}\x00"


def _plain_markdown(text: str) -> str:
    """Removes markers of emphasis and links."""
    if "](" in text:
        text = _link.sub(_words_and_address, text)
    if "*" in text:
        text = _stars.sub(r"\2", _star.sub(r"\1", text))
    if "_" in text:
        text = _underscores.sub(r"\1", _underscore.sub(r"\1", text))
    if "~~" in text:
        text = _struck.sub(r"\1", text)
    return text


def _words_and_address(link: re.Match[str]) -> str:
    words, address = link[1].strip(), link[2]
    is_address = "." in words and words in address
    return address if not words or is_address else f"{words} ({address})"
