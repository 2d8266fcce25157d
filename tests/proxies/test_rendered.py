"""A browser leaves by the site's proxy too, and gives its password to nobody else."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.proxies.crawl import Plan, crawl
from tests.proxies.farm import Proxy, Site
from tests.proxies.setting import USER, WORD, entry, line, nothing_shown


@pytest.mark.parametrize("word", [WORD, "wörd€"])
async def test_a_rendered_page_leaves_by_the_proxy(
    configured: Callable[[str, str], None], name: str, tmp_path: Path, word: str
) -> None:
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(Site())
        proxy = await stack.enter_async_context(Proxy("good", users={USER: word}))
        configured(entry(name, site) + f"[{name}.browser]\nrender = true\n", line(proxy, "datacenter", word))
        crawled = await crawl(tmp_path, Plan(name, [site.url + "/page"]))
    assert crawled.ended("200") == [site.url + "/page"]
    [asked] = [asked for asked in site.asked if asked.path == "/page"]
    assert asked.headers["x-via"] == "good"
    assert "proxy-authorization" not in asked.headers
    nothing_shown(crawled)
