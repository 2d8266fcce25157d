"""Jobs of the spider bluesky, and what `runs` says of them."""

from typing import Any

from tests.deploy.conftest import Records
from tests.deploy.scrapyd import Scrapyd
from tests.sandbox.process import Sandbox


def run_of(records: Records, job: str) -> dict[str, Any]:
    """The job's document of `runs`: there is one."""
    [run] = records.runs.find({"job": job})
    return run


def wishes(site: Sandbox, **others: str) -> dict[str, str]:
    """Arguments of the spider; `depth` tells crawls apart."""
    seeds = f"{site.handle(0)},{site.handle(1)}"
    return {"seeds": seeds, "collect": "graph,profiles", "media": "no", "service": site.url} | others


def schedule_slow(scrapyd: Scrapyd, site: Sandbox, depth: int) -> str:
    """A job that is in the middle of its work."""
    site.fault("slow", seconds=0.5)
    site.clear_log()
    job = scrapyd.schedule(**wishes(site, depth=str(depth)))
    scrapyd.wait_for(lambda: len(site.log()["requests"]) > 5)
    return job
