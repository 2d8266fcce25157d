"""`python -m tests.hostile` writes what a run finds into docs/security.md."""

import os
import sys

import pytest

if __name__ == "__main__":
    os.environ["HOSTILE_WRITE"] = "1"
    sys.exit(pytest.main(["tests/hostile", "-q"]))
