"""A worker that is silent for so long that its work goes to others, and then goes on, does no harm."""

import signal
from pathlib import Path

import pytest

from tests.chaos.crawl import crawl
from tests.chaos.killing import Killing, Plan


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_worker_that_wakes_up_when_its_work_was_given_to_others_does_no_harm(tmp_path: Path) -> None:
    plan = Plan(pages=500, workers=2, worker_kills=0)
    with crawl(plan.pages, tmp_path, "tests.chaos.settings", HARVESTER_LEASE_SECONDS="2") as crawled:
        killing = Killing(plan, crawled.site, crawled.servers, crawled.workers, crawled.pending, crawled.held_by)
        sleeper = crawled.workers.start()
        assert killing.reaches(50)
        sleeper.process.send_signal(signal.SIGSTOP)
        held = crawled.held_by(sleeper)
        crawled.workers.start()
        assert killing.waits_until(lambda: crawled.status().redelivered >= held)
        sleeper.process.send_signal(signal.SIGCONT)
        killing.finish()
        status = crawled.status()
        assert held
        assert crawled.stored() == crawled.expected(), crawled.workers.said
        assert status.balanced
        assert crawled.dead() == []
        assert status.done == status.queued == status.seen - crawled.site.tree.moved()
