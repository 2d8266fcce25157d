"""Jobs of Scrapyd: whatever becomes of one, `runs` tells it by the job's id."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.deploy.conftest import Records
from tests.deploy.jobs import run_of, schedule_slow, wishes
from tests.deploy.scrapyd import Scrapyd
from tests.sandbox.process import Sandbox


def test_a_job_harvests_its_seeds_and_writes_down_how_it_ended(
    scrapyd: Scrapyd, site: Sandbox, records: Records
) -> None:
    job = scrapyd.schedule(**wishes(site, depth="0"), setting=["CLOSESPIDER_ERRORCOUNT=50"])
    scrapyd.finish(job)
    assert records.profiles.count_documents({"did": {"$in": [site.did(0), site.did(1)]}}) == 2, scrapyd.said
    run = run_of(records, job)
    assert (run["spider"], run["state"], run["finish_reason"]) == ("bluesky", "finished", "finished")
    assert (run["verdict"], run["exit_code"]) == ("passed", 0)
    assert run["counts"]["profile"] == 2
    assert run["arguments"]["seeds"] == wishes(site)["seeds"]
    assert Path(run["log"]) == scrapyd.folder / "logs_dir" / "harvester" / "bluesky" / f"{job}.log"
    assert run["_id"] in Path(run["log"]).read_text()
    assert Path(run["report"]).is_file(), "its template is in the egg"


@pytest.mark.slow
def test_a_cancelled_job_is_interrupted_and_the_same_job_continues_it(
    scrapyd: Scrapyd, site: Sandbox, records: Records
) -> None:
    job = schedule_slow(scrapyd, site, depth=1)
    assert scrapyd.post("cancel", project="harvester", job=job)["prevstate"] == "running"
    scrapyd.finish(job)
    run = run_of(records, job)
    assert (run["state"], run["finish_reason"], run["exit_code"]) == ("interrupted", "shutdown", 130), scrapyd.said
    site.clear_faults()
    again = scrapyd.schedule(**wishes(site, depth="1"))
    scrapyd.finish(again)
    last = run_of(records, again)
    assert (last["crawl"], last["state"]) == (run["crawl"], "finished"), scrapyd.said


@pytest.mark.slow
def test_a_refused_job_has_its_own_reason_and_exit_code(scrapyd: Scrapyd, site: Sandbox, records: Records) -> None:
    site.fault("block_all", match="/xrpc/app.bsky.")
    job = scrapyd.schedule(**wishes(site, depth="2"))
    scrapyd.finish(job)
    run = run_of(records, job)
    assert (run["state"], run["finish_reason"], run["verdict"], run["exit_code"]) == ("failed", "blocked", "failed", 7)
    assert run["failures"]


@pytest.mark.soak
def test_a_job_that_misses_its_monitors_says_which(scrapyd: Scrapyd, site: Sandbox, records: Records) -> None:
    job = scrapyd.schedule(**wishes(site, depth="0", seeds="nobody.invalid"))
    scrapyd.finish(job)
    run = run_of(records, job)
    assert (run["state"], run["exit_code"]) == ("failed", 6), scrapyd.said
    assert "Record count" in [failure["monitor"] for failure in run["failures"]]


@pytest.mark.slow
def test_a_job_that_never_began_is_written_down_too(scrapyd: Scrapyd, records: Records) -> None:
    job = scrapyd.schedule(depth="deep", colour="red")
    scrapyd.finish(job)
    run = run_of(records, job)
    assert (run["state"], run["finish_reason"], run["exit_code"]) == ("failed", "usage_error", 2)
    assert "depth" in run["message"]
    assert re.search("colour: .*'red'", run["message"])
    assert run["arguments"] == {"depth": "deep", "colour": "red"}


@pytest.mark.soak
def test_a_killed_job_is_lost(scrapyd: Scrapyd, site: Sandbox, records: Records) -> None:
    job = schedule_slow(scrapyd, site, depth=3)
    [process] = scrapyd.get("listjobs", project="harvester")["running"]
    assert run_of(records, job)["pid"] == process["pid"]
    os.kill(process["pid"], signal.SIGKILL)
    scrapyd.finish(job)
    site.clear_faults()
    again = scrapyd.schedule(**wishes(site, depth="3"))
    scrapyd.finish(again)
    assert run_of(records, job)["state"] == "lost"
    assert (run_of(records, again)["state"], run_of(records, again)["resumed"]) == ("finished", True), scrapyd.said
