"""What is called in a process of its own: what comes back, and what ends it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from harvester.bounded.process import BoundedProcess, Bounds
from harvester.bounded.reader import BoundedReader
from harvester.exceptions import PageFailed, ParseError, TooCostlyError
from tests.bounded import functions

LARGE = 1 << 20


def bounds(cpu_s: float = 60.0, memory_mb: int = 200, result_mb: int = 64, silence_s: float = 120.0) -> Bounds:
    return Bounds(cpu_s, memory_mb, result_mb, silence_s)


USUAL = bounds()


@pytest.fixture
def process() -> Iterator[BoundedProcess]:
    process = BoundedProcess()
    yield process
    process.close()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": [1, None, "é"]}, id="values"),
        pytest.param(b"x" * LARGE, id="large bytes"),
        pytest.param([*range(10_001)], id="a long list"),
        pytest.param({"inner": [[*range(700)], [*map(str, range(900))]]}, id="long lists within"),
    ],
)
def test_what_is_given_comes_back_as_it_is(process: BoundedProcess, value: object) -> None:
    assert process.call(USUAL, functions.same, value) == value
    assert process.call(USUAL, functions.same, value) == value


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("harvester.bounded.child", {"asyncio", "importlib.metadata", "psutil", "subprocess"}),
        ("harvester.parsers.web.endpoint", {"asyncio", "jsonschema", "pydantic", "scrapy"}),
        ("harvester.parsers.web.feed", {"asyncio", "jsonschema", "pydantic", "scrapy"}),
    ],
)
def test_a_process_that_parses_starts_without_what_parsers_do_not_need(module: str, unneeded: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert module in loaded
    assert not unneeded.intersection(loaded)


def test_a_generator_is_a_list_or_comes_as_it_is_made(process: BoundedProcess) -> None:
    assert process.call(USUAL, functions.numbers, 3) == [0, 1, 2]
    endless = process.items(USUAL, functions.numbers, 10**12)
    assert [next(endless), next(endless)] == [0, 1]
    endless.close()
    assert process.call(USUAL, functions.same, "and goes on") == "and goes on"


def test_exceptions_are_those_of_the_function(process: BoundedProcess) -> None:
    with pytest.raises(ParseError, match="no feed"):
        process.call(USUAL, functions.raise_parse_error, "no feed")
    with pytest.raises(PageFailed) as failed:
        process.call(USUAL, functions.raise_page_failed, "empty", "nothing there")
    assert (failed.value.outcome, str(failed.value)) == ("empty", "nothing there")
    with pytest.raises(ZeroDivisionError) as fault:
        process.call(USUAL, functions.divide, 1, 0)
    assert "functions.py" in "".join(fault.value.__notes__)


def test_too_much_computing_ends_it_and_the_next_call_is_answered() -> None:
    process, within = BoundedProcess(), bounds(cpu_s=0.2)
    try:
        with pytest.raises(TooCostlyError, match=r"\b0\.2 .*computing"):
            process.call(within, functions.compute_for_ever)
        assert process.call(within, functions.same, 1) == 1
    finally:
        process.close()


def test_too_much_memory_ends_it_though_the_function_swallows_memory_errors() -> None:
    process, within = BoundedProcess(), bounds(memory_mb=50)
    try:
        with pytest.raises(TooCostlyError, match="50 MB"):
            process.call(within, functions.take_memory_for_ever)
    finally:
        process.close()


def test_too_large_a_result_ends_it() -> None:
    process, within = BoundedProcess(), bounds(result_mb=1)
    try:
        with pytest.raises(TooCostlyError, match="1 MB"):
            process.call(within, functions.same, [f"{number:200}" for number in range(10_000)])
    finally:
        process.close()


def test_silence_ends_it() -> None:
    process, within = BoundedProcess(), bounds(silence_s=0.1)
    try:
        with pytest.raises(TooCostlyError, match="nothing"):
            process.call(within, functions.wait, 3600.0)
    finally:
        process.close()


def test_a_process_that_dies_is_told_and_replaced(process: BoundedProcess) -> None:
    first = process.call(USUAL, os.getpid)
    with pytest.raises(TooCostlyError, match="dies"):
        process.call(USUAL, functions.die)
    assert process.call(USUAL, os.getpid) != first
    os.kill(process.call(USUAL, os.getpid), signal.SIGKILL)
    assert process._process
    process._process.wait(60)
    assert process.call(USUAL, functions.same, 1) == 1


def test_it_is_given_no_variables_of_the_environment(process: BoundedProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_TOKEN", "secret")
    assert process.call(USUAL, os.getenv, "HARVESTER_TOKEN") is None


def test_nothing_is_left_when_it_is_closed(process: BoundedProcess) -> None:
    child = psutil.Process(process.call(USUAL, os.getpid))
    process.close()
    assert not child.is_running()


async def test_a_short_call_does_not_wait_for_a_costly_one() -> None:
    reader = BoundedReader(bounds(cpu_s=0.2), bounds(cpu_s=60.0))
    try:
        costly = asyncio.create_task(reader.call(functions.compute_for_ever))
        short = [await reader.call(functions.same, number) for number in range(20)]
        assert short == [*range(20)]
        assert not costly.done()
        costly.cancel()
        with pytest.raises(asyncio.CancelledError):
            await costly
        assert await reader.call(functions.same, b"x" * (3 * LARGE)) == b"x" * (3 * LARGE)
    finally:
        await reader.close()


async def test_what_is_too_costly_for_the_first_process_is_called_in_the_second() -> None:
    reader = BoundedReader(bounds(memory_mb=20), bounds())
    try:
        assert await reader.call(functions.size_of_many, 1_000_000) == 1_000_000
    finally:
        await reader.close()


async def test_the_loop_goes_on_while_results_come() -> None:
    """A result of 200,000 rows comes in parts: another task runs between them."""
    reader = BoundedReader()
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    try:
        await reader.call(functions.same, 1)
        before, began = turns, time.process_time()
        rows = await reader.call(functions.rows, 200_000)
        assert len(rows) == 200_000
        assert time.process_time() > began
        assert turns - before > 400
    finally:
        counting.cancel()
        await reader.close()


async def test_there_is_no_room_for_more_while_much_waits_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harvester.bounded.reader.MAX_WAITING_BYTES", 3 * LARGE)
    reader = BoundedReader()
    try:
        calls = [asyncio.create_task(reader.call(functions.same, b"x" * LARGE)) for _ in range(4)]
        await asyncio.sleep(0)
        waiting = asyncio.create_task(reader.wait_for_room())
        await asyncio.wait([*calls, waiting], return_when=asyncio.FIRST_COMPLETED)
        assert [call.done() for call in calls] == [True, False, False, False]
        await waiting
        assert not all(call.done() for call in calls)
        await asyncio.gather(*calls)
        await reader.wait_for_room()
    finally:
        await reader.close()


async def test_items_come_while_they_are_made_and_their_process_ends_with_them() -> None:
    reader = BoundedReader()
    try:
        endless = reader.items(USUAL, functions.numbers, 10**12)
        assert [await anext(endless), await anext(endless)] == [0, 1]
        assert await reader.call(functions.same, "meanwhile") == "meanwhile"
        await endless.aclose()
        assert [item async for item in reader.items(USUAL, functions.numbers, 3)] == [0, 1, 2]
        with pytest.raises(TooCostlyError, match="computing"):
            _ = [item async for item in reader.items(bounds(cpu_s=0.1), functions.numbers, 10**12)]
    finally:
        await reader.close()


def test_the_process_ends_when_its_parent_is_gone() -> None:
    process = BoundedProcess()
    child = psutil.Process(process.call(USUAL, os.getpid))
    assert process._process
    assert process._process.stdin
    process._process.stdin.close()
    assert process._process.wait(60) == 0
    assert not child.is_running()
    process.close()
