"""Parses the header Link (RFC 8288) for the next page of a list. A pure function."""

import re
from collections.abc import Iterable

from harvester.parsers.web.join import browser_join

_links = re.compile(r'<([^<>]*)>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:"(?:[^"\\]|\\.)*"|[^",;\s]*))?)*)').finditer
_rel = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^",;\s]*))', re.IGNORECASE).search


def next_link(values: Iterable[str], base: str) -> str | None:
    """Returns the target of the first link with the relation `next`; else None.

    `values` are the values of all Link headers of a response. `base` is the requested address.
    """
    for value in values:
        for target, parameters in (link.groups() for link in _links(value)):
            if (rel := _rel(parameters)) and "next" in (rel[1] or rel[2] or "").lower().split():
                try:
                    return browser_join(base, target)
                except ValueError:
                    return None
    return None
