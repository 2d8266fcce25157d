"""Two workers that have nothing in common but the addresses of Redis and MongoDB share one crawl."""

import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.servers import module
from tests.chaos.crawl import crawl
from tests.chaos.workers import Workers

PAGES = 6000
"""So many that both workers have begun long before the last page is read."""
SETTINGS = "tests.chaos.settings"
LONGEST_S = 200


def test_workers_that_know_only_two_addresses_share_one_crawl(tmp_path: Path) -> None:
    """Each has a folder, a home and a state folder of its own. The second reaches both servers by other ports."""
    with crawl(PAGES, tmp_path, SETTINGS) as shared:
        redis, mongodb = shared.servers.redis.uri, shared.servers.mongodb.uri
        with (
            module("tests.bench.proxy", str(urlsplit(redis).port)) as (_, [redis_port]),
            module("tests.bench.proxy", str(urlsplit(mongodb).port)) as (_, [mongodb_port]),
        ):
            variables = {
                "HOME": str(tmp_path / "elsewhere"),
                "HARVESTER_STATE_DIR": str(tmp_path / "elsewhere" / "state"),
                "HARVESTER_REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
                "HARVESTER_MONGODB_URI": f"mongodb://127.0.0.1:{mongodb_port}/?directConnection=true",
                "HARVESTER_DATABASE": "tree",
            }
            with Workers(shared.site, tmp_path / "elsewhere", SETTINGS, -1, variables, name="elsewhere") as elsewhere:
                here = shared.workers.start()
                there = elsewhere.start()
                deadline = time.monotonic() + LONGEST_S
                while here.process.poll() is None or there.process.poll() is None:
                    assert time.monotonic() < deadline, shared.workers.said + elsewhere.said
                    time.sleep(0.1)
                said = shared.workers.said + elsewhere.said
                assert (here.process.returncode, there.process.returncode) == (0, 0), said
        answers = shared.site.progress().agents
        assert shared.stored() == shared.expected(), said
        status = shared.status()
    assert min(answers[here.agent], answers[there.agent]) > 0
    assert (status.balanced, status.redelivered, status.dead) == (True, 0, 0)
