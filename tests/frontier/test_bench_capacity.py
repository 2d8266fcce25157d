"""The tables of docs/capacity.md follow from the measurements that stand in it."""

from pathlib import Path

import pytest

from tests.bench.capacity import constants, documented, memory, most, one_site, speed

PAGE = (Path(__file__).parents[2] / "docs" / "capacity.md").read_text("utf-8")
MEASURED = documented(PAGE)


@pytest.mark.parametrize(
    "part",
    [constants(MEASURED), memory(MEASURED), speed(MEASURED), one_site(), most(MEASURED)],
    ids=["constants", "memory", "speed", "one_site", "most"],
)
def test_the_page_says_what_follows_from_its_measurements(part: str) -> None:
    """To renew it: make capacity"""
    assert part in PAGE
