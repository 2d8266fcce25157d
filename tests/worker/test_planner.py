"""Spiders with something to do share the processes, whoever came first."""

from collections import Counter
from collections.abc import Sequence

import pytest

from harvester.worker.planner import TURN_S, Running, to_drain, to_start


def running(*spiders: str, age_s: float = 1) -> list[Running]:
    return [Running(spider, age_s + number) for number, spider in enumerate(reversed(spiders))][::-1]


@pytest.mark.parametrize(
    ("waiting", "processes", "started"),
    [
        ("", "", None),
        ("", "a", None),
        ("ab", "", "a"),
        ("ab", "a", "b"),
        ("ba", "", "b"),
        ("ab", "aab", "b"),
        ("a", "aab", "a"),
        ("abc", "ab", "c"),
    ],
)
def test_a_free_process_is_for_the_spider_that_has_the_fewest(waiting: str, processes: str, started: str) -> None:
    assert to_start([*waiting], running(*processes)) == started


@pytest.mark.parametrize(
    ("waiting", "processes", "drained"),
    [
        ("", "aa", ""),
        ("a", "aa", ""),
        ("b", "aa", "a"),
        ("ab", "aaab", ""),
        ("b", "a", ""),
        ("c", "aabbb", "b"),
    ],
)
def test_a_process_makes_room_at_once_if_its_spider_has_others_and_another_has_none(
    waiting: str, processes: str, drained: str
) -> None:
    assert named(to_drain([*waiting], running(*processes)), processes) == drained


@pytest.mark.parametrize(
    ("waiting", "processes", "drained"),
    [("b", "a", "a"), ("a", "a", ""), ("ab", "aaab", "a"), ("ab", "aab", ""), ("c", "ab", "a"), ("abc", "ab", "a")],
)
def test_after_its_turn_it_makes_room_for_any_that_has_less(waiting: str, processes: str, drained: str) -> None:
    assert named(to_drain([*waiting], running(*processes, age_s=TURN_S)), processes) == drained


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_over_many_turns_each_spider_has_its_share(number: int) -> None:
    spiders = [*"abcd"]
    processes: list[Running] = [Running("a", TURN_S)] * number
    turns: Counter[str] = Counter()
    for _ in range(400):
        index = to_drain(spiders, processes)
        if index is not None:
            del processes[index]
            started = to_start(spiders, processes)
            assert started
            spiders.remove(started)
            spiders.append(started)
            processes.append(Running(started, 0))
        processes = [Running(each.spider, each.age_s + TURN_S) for each in processes]
        turns.update({each.spider for each in processes})
    assert min(turns.values()) >= min(1, number / 4) * 400 * 0.9, turns


def named(index: int | None, processes: Sequence[str]) -> str:
    return "" if index is None else processes[index]
