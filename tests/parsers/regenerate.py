"""Writes down what is read from each saved page: python -m tests.parsers.regenerate. Read the difference by eye."""

from tests.parsers.cases import READERS, expected_file, written

for name in READERS:
    expected_file(name).write_text(written(name), "utf-8")
