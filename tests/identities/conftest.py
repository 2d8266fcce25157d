"""A county, and its entry in a folder of sites."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from harvester.identities import identity, limited_logins, token
from tests.identities.county import County
from tests.identities.without_crawl import Clock


@pytest.fixture
async def county() -> AsyncIterator[County]:
    async with County() as server:
        yield server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of all identities in this process."""
    clock = Clock()
    for module in (identity, limited_logins, token):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=clock.time))
    return clock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """In which crawls run."""
    (tmp_path / "sites").mkdir()
    return tmp_path
