"""pytest plugin: writes down which tests that run a crawler pass, in the file that COMPAT_OUTCOMES names."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from scrapy.crawler import Crawler

_passed: dict[str, bool] = {}
_crawling: set[str] = set()


@pytest.fixture(autouse=True)
def _crawls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes the tests that run a crawler."""

    def noted(method: Any) -> Any:
        def crawl(*args: Any, **kwargs: Any) -> Any:
            _crawling.add(request.node.nodeid)
            return method(*args, **kwargs)

        return crawl

    for name in ("crawl", "crawl_async"):
        monkeypatch.setattr(Crawler, name, noted(getattr(Crawler, name)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Set-up and teardown count, too."""
    _passed[report.nodeid] = report.passed and _passed.get(report.nodeid, True)


def pytest_sessionfinish() -> None:
    outcomes = {name: passed for name, passed in _passed.items() if name in _crawling}
    Path(os.environ["COMPAT_OUTCOMES"]).write_text(json.dumps(outcomes))
