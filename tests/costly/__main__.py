"""`python -m tests.costly` prints a table of all bodies."""

import sys

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(["-m", "costly", "-s", "-q", "tests/costly"]))
