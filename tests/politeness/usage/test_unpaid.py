"""Files of a site that were not asked for, since no proxy could be paid, say nothing; that is not taken for a yes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.middlewares.usage import UsageMiddleware
from harvester.politeness import usage
from harvester.proxies.budget import BudgetSpent

ENTRIES = """
[strict]
hosts = ["strict.test"]
[strict.politeness]
honour_opt_outs = "skip"

[noting]
hosts = ["noting.test"]
[noting.politeness]
read_opt_outs = true
"""


class Broke:
    """An engine without money."""

    running, _slot = True, None
    downloader = SimpleNamespace(middleware=SimpleNamespace(middlewares=()))

    def __init__(self) -> None:
        self.asked = 0

    async def download_async(self, request: Request) -> Response:
        self.asked += request.url.endswith("tdmrep.json")
        raise BudgetSpent("the day's budget is spent", 500.0)


async def test_pages_wait_for_files_that_cannot_be_paid_where_their_word_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sites.toml").write_text(ENTRIES, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    crawler, engine = get_crawler(Spider), Broke()
    crawler.engine = cast(Any, engine)
    middleware = UsageMiddleware(crawler)
    for number in range(3):
        with pytest.raises(BudgetSpent) as spent:
            await middleware.process_request(Request(f"https://strict.test/{number}"))
        assert spent.value.seconds == 500.0
        await middleware.process_request(Request(f"https://noting.test/{number}"))
    assert engine.asked == 2, "once for each site"
    monkeypatch.setattr(usage, "monotonic", lambda: float("inf"))
    await middleware.process_request(Request("https://noting.test/later"))
    assert engine.asked == 3
