"""pytest plugin: writes down which tests pass, in the file that COMPAT_OUTCOMES names."""

import json
import os
from pathlib import Path

import pytest

_passed: dict[str, bool] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Set-up and teardown count, too."""
    _passed[report.nodeid] = report.passed and _passed.get(report.nodeid, True)


def pytest_sessionfinish() -> None:
    Path(os.environ["COMPAT_OUTCOMES"]).write_text(json.dumps(_passed))
