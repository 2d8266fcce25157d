"""Proposes synonyms for the labels of saved pages that nobody reads, for a person to judge."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from harvester.parsers.counties.guesses import guess
from harvester.parsers.counties.table import PageRows


class Proposal(NamedTuple):
    """A label that nobody reads, and what it may mean."""

    label: str
    field: str
    """Empty: nothing is proposed, since nothing is likely, or the pages have the field from another label."""
    pages: int
    """That have it."""
    sample: str


def proposals(pages: Iterable[PageRows]) -> list[Proposal]:
    """Of each label that nobody reads: those with a field first."""
    pages = list(pages)
    known = Counter(field for page in pages for field in set(_fields(page)))
    samples: dict[str, list[str]] = {}
    for page in pages:
        for label, said in page.unread.items():
            samples.setdefault(label, []).append(said.sample)
    found = [
        Proposal(label, _field(label, shown, known, len(pages)), len(shown), shown[0])
        for label, shown in samples.items()
    ]
    return sorted(found, key=lambda each: not each.field)


def _fields(page: PageRows) -> Iterator[str]:
    """Those that any record of a page has."""
    for record in page.records:
        yield from (name for name in record.__struct_fields__ if getattr(record, name) not in (None, "", (), {}))


def _field(label: str, shown: list[str], known: Counter[str], pages: int) -> str:
    """The field that most values of a label may be one of, unless all pages have it."""
    ((field, times),) = Counter(guess(label, text) for text in shown).most_common(1)
    return field if 2 * times > len(shown) and known[field] < pages else ""
