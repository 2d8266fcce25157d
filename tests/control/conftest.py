"""Fixtures of the control room."""

from collections.abc import AsyncIterator

import pytest

from harvester.config import Config
from tests.control.serving import Controller, controller
from tests.jobs.conftest import jobs, local_jobs

__all__ = ["jobs", "local_jobs"]


@pytest.fixture
async def control(config: Config, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Controller]:
    """A controller on the servers of the tests, with the spiders of tests/jobs/cli_spiders.py."""
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.cli_settings")
    async with controller(config) as running:
        yield running
