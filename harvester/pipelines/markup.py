"""HTML and Markdown to plain text, for short texts of people: what only looks like markup stays. Pure functions.

The patterns run in linear time on hostile input: what repeats cannot match what follows it.
"""

import re
from html import unescape
from html.entities import html5

_TAGS = (
    "a|abbr|acronym|address|article|aside|audio|b|bdi|bdo|big|blockquote|body|br|button|canvas|center|cite|code|col|"
    "colgroup|dd|del|details|dfn|div|dl|dt|em|embed|fieldset|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|"
    "html|i|iframe|img|input|ins|kbd|label|legend|li|mark|marquee|meta|nav|noscript|ol|option|p|picture|pre|q|rp|rt|"
    "ruby|s|samp|script|section|select|small|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|textarea|"
    "tfoot|th|thead|title|tr|tt|u|ul|video|wbr"
)
"""HTML's elements, but for those that people write as placeholders: <name>, <data>, <link>, ..."""
_NEW_LINE = re.compile(
    "/?(?:address|article|aside|blockquote|br|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|header|"
    "hr|nav|ol|option|p|pre|section|summary|table|tr|ul)"
).fullmatch
_VALUE = r"""(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=`]++)"""
_ATTRIBUTES = rf"(?:\s++(?:[a-z][\w:.-]*+\s*+=\s*+{_VALUE}|(?:async|defer|disabled|checked)\b))*+"

_tag = re.compile(rf"<(/?(?:{_TAGS}))\b{_ATTRIBUTES}\s*+/?>", re.IGNORECASE)
_with_contents = re.compile(
    r"<(script|style)\b[^<>]*+>(?:(?!<\1\b).)*?</\1\s*+>|<!--(?:(?!<!--).)*?-->|<!doctype\b[^<>]*+>",
    re.IGNORECASE | re.DOTALL,
)
_autolink = re.compile(r"<((?:https?://|mailto:)[^\s<>]++)>")
_ampersands = re.compile("&(?:amp;)++")
_entity = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|([A-Za-z][A-Za-z0-9]{1,31}));")


def plain_html(text: str) -> str:
    """Without entities, tags, comments, scripts and styles: one layer of them."""
    if "&" in text:
        text = _entity.sub(_character, _ampersands.sub("&", text))
    if "<" in text:
        text = _with_contents.sub("", text)
        text = _autolink.sub(r"\1", text)
        text = _tag.sub(_instead_of_tag, text)
    return text


def _character(entity: re.Match[str]) -> str:
    name = entity[1]
    return unescape(entity[0]) if name is None or f"{name};" in html5 else entity[0]


def _instead_of_tag(tag: re.Match[str]) -> str:
    name = tag[1].lower()
    if _NEW_LINE(name):
        return "\n"
    return {"li": "\n- ", "td": " ", "th": " "}.get(name, "")


_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef"
"""Scripts that put no space between words."""
_FIRST = "[^\\W_]|[\"'“‘«¿¡@#]|[\u2190-\u2bff\U0001f000-\U0001faff]"
"""What emphasised text starts with; keeps (*^_^*) and the like as they are."""
_NOT_BEFORE = r"[\w*\\/@.=&?%#+^~-]"
_NOT_AFTER = rf"(?![^\W{_CJK}]|\*)"
_IN_UNDERSCORES = r"(?:[^_\n]|(?<=[^\W_])_(?=[^\W_]))"
_PYTHON_NAMES = (
    "all|call|class|dict|doc|enter|eq|exit|file|future|getattr|getitem|hash|init|iter|len|main|name|new|next|"
    "pycache|repr|setattr|setitem|slots|str|version"
)

# A marker comes before the look behind it: a pattern that starts with a character is searched ten times faster.
_star = re.compile(rf"\*(?<!{_NOT_BEFORE}.)(?={_FIRST})([^*\n]++)(?<![\s^_-])\*(?![\w*])")
_stars = re.compile(rf"\*\*(?<![^\W{_CJK}]..)(?<![*\\/]..)(\*?)(?![\s*])([^*\n]++)(?<!\s)\*\*\1{_NOT_AFTER}")
_underscore = re.compile(rf"_(?<!{_NOT_BEFORE}.)(?={_FIRST})({_IN_UNDERSCORES}+)(?<!\s)_(?!\w)")
_underscores = re.compile(
    rf"__(?<!{_NOT_BEFORE}..)(?!(?:{_PYTHON_NAMES})__)(?![\s_])({_IN_UNDERSCORES}+)(?<!\s)__(?!\w)"
)
_struck = re.compile(r"~~(?<!~..)(?![\s~])([^~\n]++)(?<!\s)~~(?!~)")
_fence = re.compile(r"^ *```+[\w+#-]* *(?:\n|\Z)", re.MULTILINE)
_code = re.compile(r"`(?<!``)(`?)(?!`)([^`\n]++)`\1(?!`)")
_link = re.compile(
    r"!?\[([^\[\]\n]*+)\]\( *+<?((?:https?://|mailto:|www\.)[^\s()<>]*+(?:\([^\s()<>]*+\)[^\s()<>]*+)*+)>?"
    r"""(?: ++(?:"[^"\n]*+"|'[^'\n]*+'))? *+\)"""
)
_heading = re.compile(r"^#{1,6} +(?=\S)", re.MULTILINE)
_quotation = re.compile(rf"^ ?(?:> ?)*+(?<=> )(?!\d)(?={_FIRST}|[*_(\[])", re.MULTILINE)


def plain_markdown(text: str) -> str:
    """Without markers of emphasis, code, links, headings and quotations: one layer of them. Lines end in \\n."""
    if "`" in text:
        text = _code.sub(r"\2", _fence.sub("", text))
    if "](" in text:
        text = _link.sub(_words_and_address, text)
    if "*" in text:
        text = _stars.sub(r"\2", _star.sub(r"\1", text))
    if "_" in text:
        text = _underscores.sub(r"\1", _underscore.sub(r"\1", text))
    if "~~" in text:
        text = _struck.sub(r"\1", text)
    if "# " in text:
        text = _heading.sub("", text)
    if "> " in text:
        text = _quotation.sub("", text)
    return text


def _words_and_address(link: re.Match[str]) -> str:
    words, address = link[1].strip(), link[2]
    return address if not words or words in address else f"{words} ({address})"
