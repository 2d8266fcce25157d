"""No platform without its saved pages: one of each kind, with the records or the outcome that it leads to."""

import json
from typing import get_args

import pytest

from harvester.platforms import Platform
from tests.counties.saved_pages import KINDS, NO_PAGE, RECORDS, SAVED, made_of, shown


@pytest.mark.parametrize(("platform", "kind"), [(name, kind) for name, pages in SAVED.items() for kind in pages])
def test_a_saved_page_has_the_outcome_that_is_known_of_it(platform: str, kind: str) -> None:
    page = SAVED[platform][kind]
    outcome, reason, records = made_of(page)
    assert (outcome, page.said in reason) == (page.outcome, True), reason
    assert (kind == "valid") == bool(records)


def test_records_of_valid_pages_are_those_that_were_read_by_a_person() -> None:
    known = json.loads(RECORDS.read_text())
    assert known.keys() == SAVED.keys()
    for platform, pages in SAVED.items():
        assert shown(made_of(pages["valid"])[2]) == known[platform], platform


def test_every_platform_has_a_page_of_each_kind_or_a_reason_why_there_is_none() -> None:
    wanted = {(platform, kind) for platform in get_args(Platform) for kind in KINDS}
    there = {(platform, kind) for platform, pages in SAVED.items() for kind in pages}
    assert there | NO_PAGE.keys() == wanted
    assert not there & NO_PAGE.keys()
