"""A county, and its entry in a folder of sites."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.identities.county import County


@pytest.fixture
async def county() -> AsyncIterator[County]:
    async with County() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """In which crawls run."""
    (tmp_path / "sites").mkdir()
    return tmp_path
