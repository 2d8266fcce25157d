"""How workers are shown: a live table on a terminal, with the log lines above it."""

import io
import logging
import re
import signal
from types import SimpleNamespace

import pytest
from rich.console import Console

from harvester.worker import show
from harvester.worker.process import WorkerProcess
from harvester.worker.reporter import Report
from harvester.worker.show import Shown, WorkerLines, WorkerView
from tests.dashboard.test_live import Terminal
from tests.numbers import numbers_of
from tests.worker.running import Workers

COMMAND = ["tests.worker.command", "worker", "manners", "--processes"]


def test_a_terminal_shows_a_row_for_each_worker(workers: Workers) -> None:
    with Terminal("2", columns=120, rows=30, environ=workers.environment, command=COMMAND) as terminal:
        row = r"^ +{} +\d+ +running +\d+ (?:s|min \d+ s) +[\d.]+ MB +[\d.]+ +[1-9][\d,]* +0 +\d+ +0$"
        terminal.read_until(
            lambda: all(re.search(row.format(number), terminal.shown, re.MULTILINE) for number in (1, 2))
        )
        head = next(line for line in terminal.shown.splitlines() if line.lstrip().startswith("worker "))
        assert {"pid", "state", "memory", "records", "errors", "restarts"} < set(head.split())
        terminal.process.send_signal(signal.SIGTERM)
        terminal.read_until(lambda: len(re.findall(r"^ +\d +\d+ +ended ", terminal.shown, re.MULTILINE)) == 2)
        terminal.read_to_end()
        assert terminal.process.wait(240) == 143
    assert re.search(r"^\S+ \S+ \[worker 2\] \[scrapy.core.engine\] INFO: ", terminal.text, re.MULTILINE)
    assert terminal.text.count("worker  ") == 1, "the table is torn"
    summary, _, rest = terminal.text[terminal.text.index("2 workers in ") :].partition("\n")
    assert re.search(r"\b0 errors, 0 restarts\b", summary)
    assert "worker " in rest, "the command that continues"
    assert not terminal.screen.cursor.hidden


def test_workers_drain_when_their_terminal_is_closed(workers: Workers) -> None:
    with Terminal("1", columns=120, environ=workers.environment, command=COMMAND) as terminal:
        terminal.read_until(lambda: re.search(r" running ", terminal.shown) is not None)
        terminal.hang_up()
        terminal.process.send_signal(signal.SIGHUP)
        assert terminal.process.wait(240) == 130


WAITING = {"api.example": 1042.0, "other.example": 999.0}
FIRST = Report(
    pages=300,
    records=41_000,
    in_flight=4,
    errors={"timeout": 2, "server_error": 1},
    waiting=WAITING,
    items={"account": {"waiting": 90, "active": 4, "done": 200, "failed": 6}, "thread": {"done": 3}},
)
SECOND = Report(pages=5, records=900, in_flight=1, waiting={"api.example": 1050.0}, errors={"timeout": 1})


def made_up(count: int) -> list[WorkerProcess]:
    """Workers that have reported and are no more, so that nothing of them changes."""
    workers = [WorkerProcess(number + 1, 30, None) for number in range(count)]
    for number, worker in enumerate(workers):
        worker.report, worker.state, worker.pid, worker.starts = SECOND if number else FIRST, "ended", 4000 + number, 1
    return workers


SCREENS = {
    (120, 20): [
        "worker   pid  state          age   memory  pages/s  records  errors  in flight  restarts",
        "     1  4000  ended  12 min 31 s  0 bytes        0   41,000       3          4         0",
        "     2  4001  ended  12 min 31 s  0 bytes        0      900       1          1         0",
        "   all                            0 bytes        0   41,900       4          5         0",
    ],
    (60, 20): [
        "worker  state   memory  pages/s  records  errors",
        "     1  ended  0 bytes        0   41,000       3",
        "     2  ended  0 bytes        0      900       1",
        "   all         0 bytes        0   41,900       4",
    ],
    (80, 10): [
        "worker  state          age   memory  pages/s  records  errors  in flight",
        "     1  ended  12 min 31 s  0 bytes        0   41,000       3          4",
        "     2  ended  12 min 31 s  0 bytes        0      900       1          1",
        "     3  ended  12 min 31 s  0 bytes        0      900       1          1",
        "   all                      0 bytes        0   50,900      14         15",
        "and 9 more workers",
    ],
}
"""Columns and rows of a terminal -> the table that it shows."""


@pytest.mark.parametrize("size", SCREENS, ids=str)
def test_the_table_shows_totals_and_jobs_at_every_size(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    lines, table = drawn(12 if size[1] == 10 else 2, *size, monkeypatch), SCREENS[size]
    assert lines[: len(table)] == table
    accounts, threads, waiting, *rest = lines[len(table) :]
    assert (numbers_of(accounts), numbers_of(threads)) == ([200, 300, 6, 94], [3, 3])
    assert ("api.example" in waiting, numbers_of(waiting), rest) == (True, [50], ["", ""])


def drawn(count: int, columns: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(WorkerProcess, "alive", True)
    monkeypatch.setattr(WorkerProcess, "age_s", 751.0)
    workers, shown = made_up(count), Shown()
    shown.note(workers)
    console = Console(file=io.StringIO(), width=columns, height=rows, color_system=None)
    with console.capture() as capture:
        console.print(WorkerView(workers, shown.progress, 1000.0), end="")
    lines = [line.rstrip() for line in capture.get().split("\n")]
    assert len(lines) <= rows + 1
    return lines


def test_the_end_tells_what_came_of_all_workers_and_of_spiders_that_have_none_any_more() -> None:
    (worker,) = workers = made_up(1)
    shown = Shown()
    worker.spider = "bluesky"
    shown.note(workers)
    worker.spider, worker.report = "parcels", SECOND._replace(items={"parcel": {"done": 2, "skipped": 1}})
    worker.starts = 3
    shown.note(workers)
    lines = shown.summary().splitlines()
    assert [numbers_of(line) for line in lines] == [[1, 0, 5, 900, 1, 1, 2], [200, 300, 6, 94], [3, 3], [2, 1]]
    assert "timeout" in lines[0]
    for line, words in zip(lines[1:], ("Accounts bluesky", "Threads bluesky", "Parcels parcels"), strict=True):
        assert all(word in line for word in words.split())


def test_files_that_could_not_be_had_are_told_beside_errors_and_of_all_workers() -> None:
    first, second = made_up(2)
    first.report = Report(files={"PDFs stored": 3, "PDFs failed": 2})
    second.report = Report(files={"PDFs stored": 1_000, "images failed": 1})
    shown = Shown()
    shown.note([first, second])
    assert shown.progress == ["PDFs: 1,003 stored, 2 failed", "Images: 1 failed"]
    first_line, second_line, *_ = shown.summary().splitlines()
    assert (numbers_of(first_line), second_line.startswith("PDFs: ")) == ([2, 0, 0, 0, 0, 0], True)


def test_the_summary_counts_restarts_at_all_spiders_that_a_worker_was_given_to() -> None:
    (worker,) = made_up(1)
    worker.starts = 3
    worker.give_to("other", ["crawl", "other"], {})
    assert worker.restarts == 2, "the first start at another spider is none"
    worker.starts = 2
    shown = Shown()
    shown.note([worker])
    assert ", 3 restarts." in shown.summary()


def test_log_lines_begin_after_ten_seconds_and_come_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0
    monkeypatch.setattr(show, "time", SimpleNamespace(monotonic=lambda: now))
    lines = WorkerLines()
    told = []
    with caplog.at_level(logging.INFO, "harvester.worker"):
        for now in range(140):
            lines(made_up(1))
            if caplog.records:
                told.append(now)
                caplog.clear()
    assert told == [10, 70, 130]
