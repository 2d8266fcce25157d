"""The header Link (RFC 8288), as far as lists use it: where the next page is. A pure function."""

import re
from collections.abc import Iterable

from harvester.parsers.web.join import browser_join

_links = re.compile(r'<([^<>]*)>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:"(?:[^"\\]|\\.)*"|[^",;\s]*))?)*)').finditer
_rel = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^",;\s]*))', re.IGNORECASE).search


def next_link(values: Iterable[str], base: str) -> str | None:
    """The address that the first link of the relation `next` leads to; None when there is none.

    `values`: of all headers Link of an answer. `base`: the address that was asked.
    """
    for value in values:
        for target, parameters in (link.groups() for link in _links(value)):
            if (rel := _rel(parameters)) and "next" in (rel[1] or rel[2] or "").lower().split():
                try:
                    return browser_join(base, target)
                except ValueError:
                    return None
    return None
