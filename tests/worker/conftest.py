"""Workers that end with their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harvester.config import Config
from tests.worker.running import Workers


@pytest.fixture
def workers(tmp_path: Path, config: Config, redis_url: str) -> Iterator[Workers]:
    workers = Workers(tmp_path, config, redis_url)
    yield workers
    workers.stop()
