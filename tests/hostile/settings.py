"""harvester's settings, with the hostile site's spider, its names, and short waits."""

import atexit
import json
import os
import resource
import socket
from pathlib import Path

from harvester.download import dns
from harvester.outcomes import POLICIES, Outcome
from harvester.settings import *  # noqa: F403
from harvester.settings import EXTENSIONS, SPIDER_MODULES

SPIDER_MODULES = [*SPIDER_MODULES, "tests.hostile.spiders"]
DOWNLOAD_TIMEOUT = 30  # default 60; the spider asks for less where nothing else ends a request
CONCURRENT_REQUESTS = 8  # default 256; each may be one that takes all that it is given
RETRIES = 1
"""Of each outcome that is tried again at all."""
HARVESTER_BACKOFF_FACTOR = 0.001  # default 1.0
LOG_LEVEL = "DEBUG"
EXTENSIONS = EXTENSIONS | {
    "harvester.monitors.extension.RunMonitoring": None,
    "harvester.monitors.history.RunHistory": None,
    "harvester.dashboard.live.LiveView": None,
}

for _outcome, _policy in POLICIES.items():
    POLICIES[_outcome] = _policy._replace(retries=min(_policy.retries, RETRIES))  # type: ignore[index]
POLICIES[Outcome.RATE_LIMITED] = POLICIES[Outcome.RATE_LIMITED]._replace(retries=0)  # type: ignore[index]  # it waits


def _look_up(host: str, family: socket.AddressFamily) -> list[dns.Address]:
    if host.endswith(".hostile.example"):
        return [(socket.AF_INET, "127.0.0.1")]
    raise socket.gaierror(socket.EAI_NONAME, "no such name")


dns.ask_system = _look_up


def _tell() -> None:
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path(os.environ["HOSTILE_PEAK"]).write_text(json.dumps(peak_kb / 1024))


atexit.register(_tell)
