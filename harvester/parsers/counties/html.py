"""Reads pages of county platforms: their visible text, and forms with all their fields."""

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
"""Elements whose text is not part of a cell's text."""
_BLOCKS = frozenset(["address", "div", "li", "p"])
"""Elements that start and end a line."""
_BUTTONS = frozenset(["submit", "button", "image", "reset", "file"])
MOST_COLUMNS = 1000
"""Maximum number of columns of a row, and of a single cell as in the HTML standard: larger numbers could use up all
memory."""
_LINE = "\x1e"
"""The separator between lines until the text is split."""
MAX_AROUND = 20
"""Maximum number of tables around a table, because inner tables are read again with each outer one."""
MOST_BLANKS = 100
"""Maximum number of consecutive blanks in a text: the time of some patterns grows with the square of this number."""
_layout = re.compile(rf"(?<![ \xa0])(?:\s{{{MOST_BLANKS},}}|[ \xa0]*[\t\r\n\f]+)\s*")
_has_deep_table = etree.XPath(f"boolean(//table[count(ancestor::table) > {MAX_AROUND}])")
_is_hidden = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE).search


class PageForm(NamedTuple):
    """A form of a page, with its initial values."""

    action: str
    """The address that receives the form."""
    values: tuple[tuple[str, str], ...]
    """The values of all fields, hidden ones included, but not of buttons."""

    def first_of(self, names: Sequence[str]) -> str:
        """Returns the first name that the form has as a field. Raises ParseError."""
        known = {name for name, _ in self.values}
        if found := next((name for name in names if name in known), None):
            return found
        raise ParseError(f"the form has no field {' or '.join(names)}")

    def filled(self, given: Mapping[str, str]) -> str:
        """Returns the body of the POST request: initial values, replaced by the given ones (of fields or buttons)."""
        return urlencode([*((name, value) for name, value in self.values if name not in given), *given.items()])


def read_page(body: bytes) -> HtmlElement:
    """Returns the parsed page. Raises ParseError when the body has no page."""
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
    """Returns the form that has a field with one of the names, hidden or not, or None. Raises ParseError."""
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
    """Returns an absolute address; empty if invalid, as `http://[your town]/` in some footers.

    `url`: the page's address.
    """
    try:
        joined = urljoin(url, address.strip()) if address else ""
        urlsplit(joined)
    except ValueError:
        return ""
    return joined


def lines_of(element: HtmlElement) -> list[str]:
    """Returns the visible lines of an element.

    Blanks within a line are preserved, because some parcel numbers have several.
    """
    if len(element) or element.tag in _SILENT:
        lines = "".join(_texts(element)).split(_LINE)
    else:
        lines = (element.text or "").split(_LINE)  # the fast path for most cells
    return [
        shown if _is_one_line(shown) else _layout.sub(" ", shown).replace("\xa0", " ")
        for line in lines
        if (shown := line.strip())
    ]


def _is_one_line(shown: str) -> bool:
    """Returns True if the text has no layout to collapse. Much faster than the pattern."""
    return shown.isprintable() and (len(shown) < MOST_BLANKS or "  " not in shown)


def text_of(element: HtmlElement) -> str:
    """Returns the visible text of an element in one line."""
    return " ".join(lines_of(element))


def spread(cells: Iterable[HtmlElement]) -> list[str]:
    """Returns the texts of a row's cells; a wide cell is repeated for all its columns.

    Raises ParseError for too many columns.
    """
    texts: list[str] = []
    for cell in cells:
        texts += [text_of(cell)] * min(max(values.whole(cell.get("colspan")) or 1, 1), MOST_COLUMNS)
        if len(texts) > MOST_COLUMNS:
            raise ParseError(f"a row of a table has more than {MOST_COLUMNS} columns")
    return texts


def has_class(element: HtmlElement, name: str) -> bool:
    """Returns True if the element has the CSS class, compared without regard to case."""
    return name.lower() in (element.get("class") or "").lower().split()


def is_visible(element: HtmlElement) -> bool:
    """Returns True if neither the element nor its ancestors are hidden."""
    return not any(_is_hidden(each.get("style") or "") for each in (element, *element.iterancestors()))


def _values(form: HtmlElement) -> Iterator[tuple[str, str]]:
    """Yields the fields as a browser sends them: `form_values` of lxml omits fields without an attribute `value`."""
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
