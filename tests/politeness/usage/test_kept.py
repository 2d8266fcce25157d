"""What files of a site say counts as long as each may be kept; one that was not to be had is asked for again."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.middlewares.usage import UsageMiddleware
from harvester.outcomes import RequestFailed
from harvester.politeness import robots, usage

ENTRY = """
[strict]
hosts = ["strict.test"]
[strict.politeness]
honour_opt_outs = "skip"
"""
TDMREP, ROBOTS = "/.well-known/tdmrep.json", "/robots.txt"
Reply = tuple[int, bytes, dict[str, str]]
"""Status, body and headers."""
RESERVED: Reply = (200, b'[{"location":"/*","tdm-reservation":1}]', {})
NO_TRAINING = b"User-agent: *\nContent-Signal: ai-train=no\n"


class Site:
    """An engine and the site behind it. `replies` are those to a path in turn, the last one for ever; else 404."""

    running, _slot = True, None
    downloader = SimpleNamespace(middleware=SimpleNamespace(middlewares=()))

    def __init__(self, replies: Mapping[str, list[Reply]]) -> None:
        self.replies = replies

    async def download_async(self, request: Request) -> Response:
        left = self.replies.get(request.url.removeprefix("https://strict.test"), [(404, b"", {})])
        status, body, headers = left.pop(0) if len(left) > 1 else left[0]
        return Response(request.url, status=status, body=body, headers=headers)


@pytest.mark.parametrize(
    "replies",
    [
        {TDMREP: [(429, b"", {}), RESERVED]},
        {TDMREP: [(408, b"", {}), RESERVED]},
        {ROBOTS: [(200, b"", {"Cache-Control": "max-age=600"}), (200, NO_TRAINING, {})]},
        {ROBOTS: [(503, b"", {}), (200, NO_TRAINING, {})]},
    ],
    ids=["too many requests", "timeout", "another robots.txt", "a robots.txt that could not be read"],
)
async def test_an_opt_out_is_heard_of_ten_minutes_later(
    replies: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sites.toml").write_text(ENTRY, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    crawler, clock = get_crawler(Spider), [1000.0]
    crawler.engine = cast(Any, Site(replies))
    for module in (usage, robots):
        monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    middleware = UsageMiddleware(crawler)
    await middleware.process_request(Request("https://strict.test/page"))
    clock[0] += robots.SHORTEST_KEPT_S + 1
    with pytest.raises(RequestFailed, match=r"strict\.test "):
        await middleware.process_request(Request("https://strict.test/page"))
