"""What follows from how a worker ended."""

import pytest

from harvester.worker.endings import WORDS, Next, backoff_s, describe, next_step, worst


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (0, Next.DONE),
        (6, Next.DONE),
        (7, Next.DONE),
        (130, Next.DONE),
        (1, Next.AGAIN),
        (3, Next.AGAIN),
        (4, Next.AGAIN),
        (-9, Next.AGAIN),
        (99, Next.AGAIN),
        (2, Next.STOP),
        (5, Next.STOP),
    ],
)
def test_each_end_has_a_consequence(code: int, step: Next) -> None:
    assert next_step(code, drained=False) is step


def test_a_worker_drained_for_its_size_goes_on_unless_its_work_was_done_meanwhile() -> None:
    assert next_step(130, drained=True) is Next.AGAIN
    assert next_step(0, drained=True) is Next.DONE


@pytest.mark.parametrize(
    ("codes", "code"),
    [([], 0), ([0, 0], 0), ([0, 130], 130), ([130, 6], 6), ([6, 7, 0], 7), ([3, 4], 4), ([2, 130], 2), ([0, -11], 1)],
)
def test_the_worst_end_is_the_end_of_all(codes: list[int], code: int) -> None:
    assert worst(codes) == code


def test_every_code_that_is_documented_has_words() -> None:
    assert all(describe(code) == f"exit code {code}: {words}" for code, words in WORDS.items())
    assert describe(-9) == "SIGKILL"
    assert describe(99) == "exit code 99"


def test_pauses_grow_and_are_capped() -> None:
    assert [backoff_s(deaths, 1, 30) for deaths in (1, 2, 3, 6, 1000)] == [1, 2, 4, 30, 30]
