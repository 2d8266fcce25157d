"""Pipelines that were never opened can be closed: Scrapy closes all when another one of them cannot be opened."""

from pathlib import Path

import pytest
from scrapy import Spider
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from harvester.addon import COMPONENTS
from harvester.config import load_config


@pytest.mark.parametrize("path", [path for path in COMPONENTS["ITEM_PIPELINES"] if "postgres" not in path])
async def test_a_pipeline_that_was_not_opened_can_be_closed(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    load_config.cache_clear()
    crawler = get_crawler(Spider, {"IMAGES_STORE": str(tmp_path)})
    crawler.spider = Spider("nobody")
    pipeline = load_object(path).from_crawler(crawler)
    close = getattr(pipeline, "close_spider", None)
    if close:
        await ensure_awaitable(close())
