"""A second Ctrl-C or SIGTERM ends a run at once: its exit code and its run tell which it was, and nothing is lost."""

import signal
from typing import Any

import pytest
from pymongo.database import Database

from tests.bad_input.command import Answer
from tests.jobs.running import FINISHED, Holding, Runs, records, states

PAGES = 20

Document = dict[str, Any]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_second_signal_ends_a_crawl_at_once_as_interrupted_and_loses_nothing(
    number: signal.Signals, runs: Runs, mongodb: Database[Document]
) -> None:
    async with Holding(PAGES, first=10) as tree:
        process = await runs.start(urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) > 12)
        process.send_signal(number)
        await runs.until(lambda: "Closing spider (shutdown)" in runs.said)
        process.send_signal(number)
        code = 143 if number is signal.SIGTERM else 130
        assert await runs.end(process) == code, runs.said
        assert "stopped at once" in runs.said
        assert "crawl tree" in runs.said.rstrip().splitlines()[-1]
        assert Answer(0, runs.said).is_for_people(), runs.said
        [run] = mongodb["runs"].find()
        assert (run["state"], run["finish_reason"], run["exit_code"]) == ("interrupted", "stopped_at_once", code)
        assert run["finished_at"] >= run["started_at"]

        tree.goes_on.set()
        assert await runs.run(urls=tree.url) == FINISHED, runs.said
        assert records(mongodb) == tree.records()
        assert states(mongodb) == {"done": 2 * PAGES}


async def test_a_second_signal_ends_workers_at_once_as_interrupted_and_loses_nothing(
    runs: Runs, mongodb: Database[Document]
) -> None:
    async with Holding(PAGES, first=10) as tree:
        process = await runs.work("tree", "--drain-seconds", "600", urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) > 12)
        process.terminate()
        await runs.until(lambda: "Closing spider (shutdown)" in runs.said)
        process.terminate()
        assert await runs.end(process) == 143, runs.said
        assert "SIGTERM again" in runs.said
        assert "it was killed" not in runs.said
        [run] = mongodb["runs"].find()
        assert (run["state"], run["exit_code"]) == ("interrupted", 143)

        tree.goes_on.set()
        assert await runs.run(urls=tree.url) == FINISHED, runs.said
        assert records(mongodb) == tree.records()
