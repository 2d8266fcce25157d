"""Translates the selectors of recordings for Playwright, which searches open shadow roots by itself."""

import re
from typing import Any

from playwright.async_api import Frame, Locator

from harvester.sites.recording import Chain

_NAMED: tuple[Any, ...] = (
    *("button", "link", "option", "tab", "menuitem", "treeitem", "checkbox", "radio", "switch", "combobox", "listbox"),
    *("textbox", "searchbox", "heading", "img", "cell", "gridcell", "columnheader", "rowheader", "row"),
)
"""Roles that are searched for `aria/Name`, which has no role, because Playwright needs one."""
_role = re.compile(r"""\[\s*role\s*=\s*["'](\w+)["']\s*\]\Z""").search


def locator_of(frame: Frame, chain: Chain) -> Locator:
    """Returns the locator for a selector of a recording."""
    first, *rest = chain
    found = _within(frame, frame, first)
    for part in rest:
        found = _within(frame, found, part)
    return found


def name_and_role(selector: str) -> tuple[str, Any]:
    """Splits `Name[role="button"]`; either part may be missing."""
    selector = selector.rstrip()
    found = _role(selector)
    return (selector[: found.start()].rstrip(), found[1]) if found else (selector, None)


def _within(frame: Frame, place: Frame | Locator, part: str) -> Locator:
    kind, _, rest = part.partition("/")
    if kind == "text":
        return place.get_by_text(re.compile(re.escape(rest)))
    if kind == "xpath":
        return place.locator(f"xpath={rest}")
    if kind != "aria":
        return place.locator(f"css={rest if kind in ('css', 'pierce') else part}")
    name, role = name_and_role(rest)
    if role and name:
        return place.get_by_role(role, name=name, exact=True)
    if role:
        inside = place.get_by_role(role)
        return inside.or_(place.and_(frame.get_by_role(role))) if isinstance(place, Locator) else inside
    found = place.get_by_label(name, exact=True)
    for each in _NAMED:
        found = found.or_(place.get_by_role(each, name=name, exact=True))
    return found
