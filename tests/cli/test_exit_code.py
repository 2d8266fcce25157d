"""What the exit code of a run says."""

from typing import Any

import pytest

from harvester.monitors.summary import exit_code


@pytest.mark.parametrize(
    ("stats", "code"),
    [
        ({"finish_reason": "finished"}, 0),
        ({"finish_reason": "finished", "harvester/exit_code": 6}, 6),
        ({"finish_reason": "shutdown"}, 130),
        ({"finish_reason": "shutdown", "harvester/exit_code": 4}, 4),
        ({"finish_reason": "closespider_timeout"}, 0),
        ({"finish_reason": "closespider_pagecount_no_item", "harvester/exit_code": 6}, 6),
        ({"finish_reason": "what its spider said"}, 0),
        ({"finish_reason": "cancelled"}, 0),
        ({"finish_reason": "cancelled", "harvester/exit_code": 130}, 130),
    ],
)
def test_zero_means_that_the_run_met_its_monitors(stats: dict[str, Any], code: int) -> None:
    assert exit_code(stats, otherwise=0) == code


def test_a_run_that_could_not_begin_has_the_code_of_its_process() -> None:
    assert exit_code({}, otherwise=1) == 1
