"""Scrapy's own tests that run a crawler, in a project that harvester was brought into by its one line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.servers import own_redis
from tests.compat.comparing import compare, download, outcomes
from tests.crash.mongod import Mongod
from tests.ports import free_port

RELEASE = "scrapy==2.19.0"
NEEDED = ["pytest-twisted==1.14.3", "decorator==5.3.1", "greenlet==3.5.6", "pyftpdlib==2.2.0", "pexpect==4.9.0"]
"""What its tests import beside what is installed."""
MODULES = [
    "addons",
    "closespider",
    "contracts",
    "core_downloader",
    "core_scraper",
    "crawl",
    "crawler",
    "crawler_runners",
    "downloaderslotssettings",
    "engine",
    "engine_close_spider",
    "engine_download",
    "engine_loop",
    "engine_stop_download_bytes",
    "engine_stop_download_headers",
    "extension_debug",
    "extension_memdebug",
    "extension_memusage",
    "extension_periodic_log",
    "extension_telnet",
    "feedexport",
    "feedexport_batch",
    "feedexport_postprocess",
    "logformatter",
    "pipeline_crawl",
    "pipelines",
    "request_attribute_binding",
    "request_cb_kwargs",
    "request_left",
    "scheduler",
    "scheduler_base",
    "signals",
    "spider",
    "spider_crawl",
    "spider_start",
    "spidermiddleware",
    "spidermiddleware_httperror",
    "spidermiddleware_output_chain",
    "spidermiddleware_process_start",
    "spidermiddleware_start",
    "stats",
]
"""Of its tests, those that run a crawler in the process of pytest."""
HERE = Path(__file__).parent
REASONS: dict[str, str] = json.loads((HERE / "known_of_scrapy.json").read_text())
BY_CHANCE = "tests/test_engine_loop.py::TestRequestSendOrder::"
"""They compare an order, which is that of a queue in memory at times."""
"""Test -> why it does not pass with harvester. docs/scrapy.md has them, too."""


def hold() -> bool:
    """Returns whether each test ended as it should."""
    with TemporaryDirectory(prefix="harvester-compat-") as folder:
        source, needed = download(Path(folder), RELEASE), Path(folder) / "needed"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(needed), *NEEDED], check=True)
        with own_redis() as redis_url, Mongod(Path(folder), free_port()) as mongod:
            environment = {
                "PYTHONPATH": f"{needed}{os.pathsep}{HERE}",  # not the root: Scrapy's tests are a package of that name
                "HARVESTER_REDIS_URL": redis_url,
                "HARVESTER_MONGODB_URI": mongod.uri,
                "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
                "HARVESTER_REQUESTS_PER_SECOND": "0",
            }
            tests = [f"tests/test_{module}.py" for module in MODULES]
            options = ["-p", "no:asyncio", "--timeout", "120", "-p", "crawling_tests"]
            theirs = outcomes(source, tests, options, environment)
            ours = outcomes(source, tests, [*options, "-p", "with_addon"], environment)
    return compare("plain Scrapy", theirs, ours, REASONS, BY_CHANCE)
