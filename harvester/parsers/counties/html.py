"""Reads pages of county platforms: their text as people see it, and forms that are sent back with all they hold."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit

from lxml import etree
from lxml.html import FormElement, HtmlElement, HTMLParser, document_fromstring

from harvester.exceptions import ParseError
from harvester.parsers.counties import values
from harvester.parsers.counties.encoding import as_utf8

_SILENT = frozenset(["script", "style", "noscript", "select", "textarea", "head"])
"""Elements whose text is no part of what a cell says."""
_BLOCKS = frozenset(["address", "div", "li", "p"])
"""Elements that stand in lines of their own."""
_BUTTONS = frozenset(["submit", "button", "image", "reset", "file"])
MOST_COLUMNS = 1000
"""Of a row, and of one cell as in the HTML standard: a page that says more could take all memory."""
_LINE = "\x1e"
"""Stands between lines until they are told apart."""
MAX_AROUND = 20
"""Tables around a table: what stands within is read with each of them."""
MOST_BLANKS = 100
"""In a row, in a text: what looks for something in it may take time that grows with their square."""
_layout = re.compile(rf"(?<![ \xa0])(?:\s{{{MOST_BLANKS},}}|[ \xa0]*[\t\r\n\f]+)\s*")
_has_deep_table = etree.XPath(f"boolean(//table[count(ancestor::table) > {MAX_AROUND}])")
_is_hidden = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE).search


class PageForm(NamedTuple):
    """A form of a page, with the values that it came with."""

    action: str
    """Where it is sent."""
    values: tuple[tuple[str, str], ...]
    """Of all its fields, the hidden ones among them, but of no button."""

    def first_of(self, names: Sequence[str]) -> str:
        """The first of these names that is a field of it. Raises ParseError."""
        known = {name for name, _ in self.values}
        if found := next((name for name in names if name in known), None):
            return found
        raise ParseError(f"the form has no field {' or '.join(names)}")

    def filled(self, given: Mapping[str, str]) -> str:
        """As it is posted: every value goes back as it came, but for those given, which may be of buttons."""
        return urlencode([*((name, value) for name, value in self.values if name not in given), *given.items()])


def read_page(body: bytes) -> HtmlElement:
    """The page. Raises ParseError when there is none."""
    try:
        parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
        page = document_fromstring(as_utf8(body), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise ParseError(f"it is no page: {error}") from None
    assert isinstance(page, HtmlElement)
    if _has_deep_table(page):
        raise ParseError(f"a table of the page stands in more than {MAX_AROUND} others")
    return page


def form_with(page: HtmlElement, names: Iterable[str], url: str) -> PageForm | None:
    """The form that has a field of one of these names, hidden or not; None when there is none. Raises ParseError."""
    wanted = frozenset(names)
    for form in page.iter("form"):
        if isinstance(form, FormElement) and any(
            field.get("name") in wanted for field in form.iter("input", "button", "select")
        ):
            action = (form.action or "").strip()
            if action and not absolute(url, action):
                raise ParseError(f"the form is sent to {action!r}, which is no address")
            return PageForm(absolute(url, action) or url, tuple(_values(form)))
    return None


def absolute(url: str, address: str) -> str:
    """An address on the page at `url`; empty: it is none. Footers of sites have such as `http://[your town]/`."""
    try:
        joined = urljoin(url, address.strip()) if address else ""
        urlsplit(joined)
    except ValueError:
        return ""
    return joined


def lines_of(element: HtmlElement) -> list[str]:
    """What it says, line by line, without what it hides.

    Blanks within a line stay as they are: some parcels' numbers have several.
    """
    if len(element) or element.tag in _SILENT:
        lines = "".join(_texts(element)).split(_LINE)
    else:
        lines = (element.text or "").split(_LINE)  # of most cells
    return [
        shown if _is_one_line(shown) else _layout.sub(" ", shown).replace("\xa0", " ")
        for line in lines
        if (shown := line.strip())
    ]


def _is_one_line(shown: str) -> bool:
    """Tells, far sooner than the pattern would, that nothing in it is layout."""
    return shown.isprintable() and (len(shown) < MOST_BLANKS or "  " not in shown)


def text_of(element: HtmlElement) -> str:
    """The same in one line."""
    return " ".join(lines_of(element))


def spread(cells: Iterable[HtmlElement]) -> list[str]:
    """What the cells of a row say; a wide one is there for each of its columns. Raises ParseError for too many."""
    texts: list[str] = []
    for cell in cells:
        texts += [text_of(cell)] * min(max(values.whole(cell.get("colspan")) or 1, 1), MOST_COLUMNS)
        if len(texts) > MOST_COLUMNS:
            raise ParseError(f"a row of a table has more than {MOST_COLUMNS} columns")
    return texts


def has_class(element: HtmlElement, name: str) -> bool:
    """Whether it is of a class, whatever its capitals."""
    return name.lower() in (element.get("class") or "").lower().split()


def is_visible(element: HtmlElement) -> bool:
    """Whether nothing around it hides it."""
    return not any(_is_hidden(each.get("style") or "") for each in (element, *element.iterancestors()))


def _values(form: HtmlElement) -> Iterator[tuple[str, str]]:
    """As a browser sends them: `form_values` of lxml leaves fields out that have no attribute `value`."""
    for field in form.iter("input", "select", "textarea"):
        name, kind = field.get("name"), (field.get("type") or "").lower()
        if not name or field.get("disabled") is not None or kind in _BUTTONS:
            continue
        if field.tag == "select":
            options = list(field.iter("option"))
            chosen = [each for each in options if each.get("selected") is not None] or options[:1]
            yield from ((name, each.get("value", each.text_content().strip())) for each in chosen)
        elif field.tag == "textarea":
            yield name, field.text_content()
        elif kind not in ("checkbox", "radio"):
            yield name, field.get("value") or ""
        elif field.get("checked") is not None:
            yield name, field.get("value") or "on"


def _texts(element: HtmlElement) -> Iterator[str]:
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, each in walk:
        if event != "start":
            yield _LINE if each.tag in _BLOCKS else ""
            yield (each.tail or "") if each is not element else ""
        elif each.tag == "br":
            yield _LINE
        elif each.tag in _SILENT or (each is not element and _is_hidden(each.get("style") or "")):
            walk.skip_subtree()
        else:
            yield _LINE if each.tag in _BLOCKS else ""
            yield each.text or ""
