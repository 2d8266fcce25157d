"""`python -m tests.docs.alone`: runs the tests of the folder it is begun in, as a process that knows no others."""

import os
import sys

import pytest

if __name__ == "__main__":
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # those that are there for the tests of this checkout
    for name in [each for each in sys.modules if each.split(".")[0] == "tests"]:
        del sys.modules[name]
    sys.exit(pytest.main(["-p", "no:cacheprovider", "tests"]))
