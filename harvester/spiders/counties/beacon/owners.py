"""Reads who owns a parcel from a module of a Beacon or qPublic report.

Counties show it in five ways: labels beside names; names and addresses that only words in their ids identify; all
owners in one element, each followed by the kind of ownership; a table; plain lines.
"""

import re
from collections.abc import Iterator
from copy import deepcopy

from lxml.html import HtmlElement

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels
from harvester.parsers.counties.html import is_visible, lines_of, spread, text_of
from harvester.parsers.counties.names import LineKind, line_kinds
from harvester.parsers.counties.pages import label_of as text_of_label
from harvester.parsers.counties.sections import Section

OWNER, ADDRESS = "OwnerName", "OwnerAddress"
"""Labels for an owner's name and address that have only an id and no label on the page."""
LINES = "Owner"
"""The label for unlabelled lines below the title of a module about owners."""
_is_of_owners = re.compile(
    r"(?:current |primary |property )?owner(?:ship|s|\(s\))?(?: (?:information|info|details?|names?))?"
    r"(?: (?:and|&) address(?:es)?)?(?:\s*[-(].*)?",
    re.IGNORECASE,
).fullmatch
"""Titles of modules that show only who owns the parcel."""
names_owners = re.compile("owner|summary|parcel|property", re.IGNORECASE).search
"""Titles of modules whose ids identify owners."""
is_name = re.compile(r"(?:Owner|Deed)Name\d?(?:_|$)|PrimaryOwner(?:Label|Name)(?:_|$)").search
_is_address = re.compile(r"(?:(?:Owner|Deed)?Address\d?|CitySt(?:ate)?Zip|Mailing)(?:_lblSuppressed)?$").search
_other_owner = re.compile("Multiowner|OwnerMultiple|JanuaryOwner").search
_is_of_all = re.compile("OtherNames$").search
_is_of_others = re.compile("tax|mail|contract|bill", re.IGNORECASE).search
"""Headings above names that do not belong to owners."""
_is_of_mail = re.compile("tax|mail|bill", re.IGNORECASE).search
_kind_behind = re.compile(
    r"[\s\xa0]{2,}(?:fee|lessee|lessor|sub-?lessee|owner|life|trustee|tenants?|joint|remainder|leasehold|vendee|vendor"
    r"|agreement|devisee|heir|personal representative)\b.*",
    re.IGNORECASE,
).search
_is_tool = re.compile(r"^(?:show|hide|view|click|print|search)\b", re.IGNORECASE).search


def add_owners(content: HtmlElement, section: Section) -> None:
    """Adds the owners of a module to its first section, which has the labels of the module already.

    Raises ParseError when the module is about owners, but shows them in an unknown way.
    """
    _add_by_ids(content, section)
    if not _is_of_owners(section.title) or _has_owner(section) or _add_table(content, section):
        return
    if lines := _plain_lines(content):
        if _has_unknown_ids(content) and LineKind.NAME in line_kinds(lines):
            raise ParseError(f"the module {section.title} has no owner's name")
        section.pairs.append((LINES, lines))
        section.means[LINES] = "OWNERNAME"


def _has_owner(section: Section) -> bool:
    return any(
        lines and (section.means.get(label) == "OWNERNAME" or labels.plain(label) in labels.OWNERS)
        for label, lines in section.pairs
    )


def _add_by_ids(content: HtmlElement, section: Section) -> None:
    """Adds names and addresses that only their ids identify. An address belongs to the name before it.

    An address below a heading `Mailing Address` is preferred. The address of a bill's recipient is the mailing address
    if the owner has no other.
    """
    said: dict[str, list[str]] = {}
    heading = role = last = mail = ""
    owners = 0
    told: set[HtmlElement] = set()
    for element in content.iter("strong", "b", "span", "a"):
        named, lines = element.get("id") or "", lines_of(element)
        if not lines or not told.isdisjoint(element.iterancestors()):
            continue
        if element.tag in ("strong", "b"):
            if not any(is_name(each.get("id") or "") for each in element.iter()):
                heading = text_of_label(element)
                before, role = role, heading if _is_of_mail(heading) else ""
                last = OWNER if role else "" if before else last
            continue
        if _is_of_all(named):
            label, lines = OWNER, list(_without_kinds(element))
            section.means[label] = "OWNERNAME"
            owners += 1
            last = ""
        elif other := _other_owner(named):
            label = other[0]
        elif is_name(named):
            role = heading if _is_of_others(heading) else ""
            label = f"{heading} (name)" if labels.plain(heading) in labels.MAILING else heading or OWNER
            if not role:
                section.means[label] = "OWNERNAME"
                owners += last != OWNER
            last = OWNER
        elif last and _is_address(named):
            last = ADDRESS
            label = ADDRESS if owners == 1 and not role else f"{ADDRESS} of {role or f'owner {owners}'}"
            mail = mail or (label if _is_of_mail(role) else "")
        else:
            continue
        told.add(element)
        said.setdefault(label, []).extend(lines)
    if mail and (ADDRESS not in said or labels.plain(mail.removeprefix(f"{ADDRESS} of ")) in labels.MAILING):
        section.means[mail] = "MAILINGADDRESS"
    section.pairs.extend(said.items())


def _without_kinds(element: HtmlElement) -> Iterator[str]:
    """Yields names without the kind of ownership after them; other text after a name belongs to it."""
    headings = {text_of(each) for each in element.iter("strong", "b")}
    for line in lines_of(element):
        name = line[: found.start()] if (found := _kind_behind(line)) else line
        if name.strip() and line not in headings:
            yield " ".join(name.split())


def _add_table(content: HtmlElement, section: Section) -> bool:
    """Adds the owners of a table with a column of names. Returns False when the module has no such table."""
    for table in content.iter("table"):
        rows = [row for row in table.iter("tr") if next(row.iterancestors("table")) is table]
        header = [labels.plain(text) for text in spread(rows[0].iter("th", "td"))] if len(rows) > 1 else []
        at = next((at for at, label in enumerate(header) if label in (*labels.OWNERS, "NAME")), None)
        cells = [spread(row.iter("th", "td")) for row in rows[1:]]
        if at is None or not all(len(row) == len(header) for row in cells):
            continue
        section.pairs.append((OWNER, [row[at] for row in cells if row[at]]))
        section.means[OWNER] = "OWNERNAME"
        address = next((at for at, label in enumerate(header) if label in (*labels.MAILING, "ADDRESS")), None)
        if address is not None and (shown := next((row[address] for row in cells if row[address]), "")):
            section.pairs.append((ADDRESS, [shown]))
        return True
    return False


def _plain_lines(content: HtmlElement) -> list[str]:
    """Returns the lines that are not headings, tables or tools."""
    content = deepcopy(content)
    for each in list(content.iterdescendants()):
        if each.getparent() is not None and _is_no_line(each):
            each.drop_tree()
    return [" ".join(line.split()) for line in lines_of(content) if ":" not in line]


def _is_no_line(element: HtmlElement) -> bool:
    if element.tag == "table":
        return any(len(row) > 1 for row in element.iter("tr"))
    if element.tag == "a":
        return bool(_is_tool(text_of(element)))
    return element.tag in ("strong", "b", "button", "label", "input") or not is_visible(element)


def _has_unknown_ids(content: HtmlElement) -> bool:
    return any(each.get("id") and text_of(each) for each in content.iter("span", "a"))
