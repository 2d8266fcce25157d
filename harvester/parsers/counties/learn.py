"""Proposes synonyms for the unread labels of saved pages, for a person to judge."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from harvester.parsers.counties.guesses import guess
from harvester.parsers.counties.table import PageRows


class Proposal(NamedTuple):
    """An unread label, and the field it may belong to."""

    label: str
    field: str
    """Empty if no field is likely, or if the pages have the likely field from another label."""
    pages: int
    """Number of pages with the label."""
    sample: str


def proposals(pages: Iterable[PageRows]) -> list[Proposal]:
    """Returns a proposal for each unread label, those with a field first."""
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
    """Yields the fields that have a value in any record of a page."""
    for record in page.records:
        yield from (name for name in record.__struct_fields__ if getattr(record, name) not in (None, "", (), {}))


def _field(label: str, shown: list[str], known: Counter[str], pages: int) -> str:
    """Returns the field that most values of a label may belong to; empty if all pages have it already."""
    ((field, times),) = Counter(guess(label, text) for text in shown).most_common(1)
    return field if 2 * times > len(shown) and known[field] < pages else ""
