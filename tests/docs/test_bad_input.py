"""docs/bad-input.md has each kind of bad input that a test knows."""

from tests.docs.bad_input import table
from tests.docs.test_docs import DOCS


def test_every_bad_input_of_the_tests_is_in_the_table() -> None:
    """To renew it: python -m tests.docs.bad_input"""
    assert table().strip() in (DOCS / "bad-input.md").read_text("utf-8")
