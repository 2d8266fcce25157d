"""What the monitors found is told once where the log and the summary go to the same stream."""

from tests.jobs.running import Runs, Tree


async def test_a_sentence_of_the_monitors_comes_once(runs: Runs) -> None:
    runs._environment |= {"HARVESTER_MIN_RECORDS": "1234"}
    async with Tree(3) as tree:
        assert await runs.run(urls=tree.url) == 6, runs.said
    assert " ".join(runs.said.split()).count("At least 1,234 are expected") == 1
