"""How workers are shown: a live table on a terminal, with the log lines above it."""

import re
import signal

from tests.dashboard.test_live import Terminal
from tests.worker.running import Workers

COMMAND = ["tests.worker.command", "worker", "manners", "--processes"]


def test_a_terminal_shows_a_row_for_each_worker(workers: Workers) -> None:
    with Terminal("2", columns=120, rows=30, environ=workers.environment, command=COMMAND) as terminal:
        row = r"^ +{} +\d+ +running +\d+ s +[\d.]+ MB +[\d.]+ +[1-9][\d,]* +\d+ +0$"
        terminal.read_until(
            lambda: all(re.search(row.format(number), terminal.shown, re.MULTILINE) for number in (1, 2))
        )
        head = next(line for line in terminal.shown.splitlines() if line.lstrip().startswith("worker "))
        assert " ".join(head.split()) == "worker pid state age memory pages/s records in flight restarts"
        terminal.process.send_signal(signal.SIGTERM)
        terminal.read_until(lambda: len(re.findall(r"^ +\d +\d+ +ended ", terminal.shown, re.MULTILINE)) == 2)
        terminal.read_to_end()
        assert terminal.process.wait(240) == 130
    assert re.search(r"^\S+ \S+ \[worker 2\] \[scrapy.core.engine\] INFO: Spider opened$", terminal.text, re.MULTILINE)
    assert terminal.text.count("worker  ") == 1, "the table is torn"
    assert not terminal.screen.cursor.hidden


def test_workers_drain_when_their_terminal_is_closed(workers: Workers) -> None:
    with Terminal("1", columns=120, environ=workers.environment, command=COMMAND) as terminal:
        terminal.read_until(lambda: re.search(r" running ", terminal.shown) is not None)
        terminal.hang_up()
        terminal.process.send_signal(signal.SIGHUP)
        assert terminal.process.wait(240) == 130
