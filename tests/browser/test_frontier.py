"""Rendered pages whose requests wait in the frontier: each is given back once, and nothing is held for it."""

import ast
import asyncio
import os
import re
from pathlib import Path

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from harvester.frontier.store import Frontier
from tests.browser.killing import chromiums, until
from tests.browser.site import JavaScriptSite
from tests.forking import Forked, fork
from tests.identities.test_chains import END, heard
from tests.root import ROOT

LONGEST_S = 240


async def start(site: JavaScriptSite, paths: list[str], folder: Path, redis_url: str) -> Forked:
    """A crawl of the spider `rendered`, whose site has identities with a header."""
    (folder / "sites").mkdir()
    (folder / "sites" / "county.toml").write_text(
        f"""[county]
hosts = ["{site.url.removeprefix("http://")}"]
[county.identities]
kind = "anonymous"
at_once = 4
expired_url = "/gate"
headers = {{ X-Token = "t-secret" }}
"""
    )
    own = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
    own |= {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "tests.browser.settings", "REDIS_URL": redis_url}
    own |= {"HARVESTER_SITES_DIR": str(folder / "sites"), "HARVESTER_REQUESTS_PER_SECOND": "0"}
    own |= {"HARVESTER_ALLOW_PRIVATE_HOSTS": "true", "HARVESTER_MIN_RECORDS": "0", "HARVESTER_LEASE_SECONDS": "30"}
    arguments = ["crawl", "rendered", "-a", f"url={site.url}", "-a", f"paths={','.join(paths)}"]
    return await fork("scrapy", *arguments, cwd=folder, env=own)


async def test_pages_of_the_frontier_whose_browser_died_or_that_are_tried_again_end_once(
    tmp_path: Path, own_redis: str
) -> None:
    paths = [f"/{kind}/{number}" for number in range(4) for kind in ("second", "list")] + ["/moved/9"]
    paths += ["/leads-away", "/expiring/1"]
    async with JavaScriptSite() as site, JavaScriptSite() as another:
        site.elsewhere = f"{another.url.replace('127.0.0.1', 'localhost')}/stray"
        with Redis.from_url(own_redis, socket_timeout=LONGEST_S) as redis, redis.monitor() as monitor:
            process = await start(site, ["/held/1", *paths], tmp_path, own_redis)
            commands = asyncio.create_task(asyncio.to_thread(heard, monitor))
            try:
                await until(lambda: site.asked["/held/1"] > 0 and site.asked["/data/9"] > 0)
                for chromium in chromiums(process.pid):
                    chromium.kill()
                site.release.set()
                _, out = await asyncio.wait_for(process.communicate(), LONGEST_S)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
                with Redis.from_url(own_redis) as other:
                    other.echo(END)
            said = await commands
    log = out.decode()
    assert process.returncode == 0, log[-5000:]
    async with AsyncRedis.from_url(own_redis) as connection:
        status = await Frontier(connection, "rendered").status()
    assert status.balanced
    assert (status.done, status.dead, status.leased, status.waiting, status.ready) == (24, 0, 0, 0, 0), log[-5000:]
    dumped = re.search(r"Dumping Scrapy stats:\n(\{.*?\})\n", log, re.DOTALL)
    assert dumped
    told = re.sub(r"datetime\.datetime\([^)]*\)", "None", dumped[1]).replace("tzinfo=None)", "")
    stats = ast.literal_eval(told)
    assert stats["rendered/last"] == 12
    assert stats["harvester/browser/pages_lost"] >= 1
    assert "rendered/leaked" not in stats
    assert 1 <= stats["harvester/outcomes/layout_changed"] <= 4, "each page says so once; the browser's end may hide it"
    assert site.asked["/expiring/1"] >= 2, "a browser that was led to the gate got no page"
    assert "stray" not in "".join(site.carried), "what another site sets is not the identity's"
    assert "Traceback" not in log, log[-5000:]
    assert "t-secret" not in said, "what an identity sends is in no queue"
