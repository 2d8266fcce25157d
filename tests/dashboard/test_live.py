"""LiveView in real crawls: in a terminal (a pseudo-terminal read by an emulator) and without one."""

import os
import re
import select
import signal
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte
import pytest

from tests.forking import begin, run
from tests.root import ROOT

pty = pytest.importorskip("pty", reason="pseudo-terminals are POSIX")
fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")

COMMAND = ["tests.dashboard.watched_crawl"]
LIMIT_SECONDS = 240
NOT_OF_A_TERMINAL = ("CI", "NO_LIVE", "COLUMNS", "LINES")
"""Variables of the tests' own process: these would say that nobody watches, or how large another terminal is."""


class Terminal:
    """A crawl in a terminal of a given size."""

    def __init__(
        self,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        environ: Mapping[str, str] = {},
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_OF_A_TERMINAL}
        own = {name: value for name, value in environ.items() if name not in ("COLUMNS", "LINES")}
        environment = {**inherited, "TERM": "xterm-256color", **own}
        self.process = begin(*command, *arguments, cwd=ROOT, env=environment, files=[theirs] * 3)
        os.close(theirs)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.ours >= 0:
            self.hang_up()

    def hang_up(self) -> None:
        """Closes the window."""
        os.close(self.ours)
        self.ours = -1

    def read_until(self, seen: Callable[[], bool]) -> None:
        """Reads what the crawl writes, until something is to be seen."""
        end = time.monotonic() + LIMIT_SECONDS
        while not seen():
            assert time.monotonic() < end, "not seen:\n" + self.text
            if select.select([self.ours], [], [], 0.1)[0] and not self._read():
                assert seen(), "not seen before the end:\n" + self.text
                return

    def read_to_end(self) -> None:
        self.read_until(lambda: not self._read())

    def _read(self) -> bytes:
        try:
            data = os.read(self.ours, 65536)
        except OSError:  # the other end is closed
            return b""
        self.raw += data
        self._stream.feed(data)
        return data

    @property
    def shown(self) -> str:
        """What the window shows now."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def text(self) -> str:
        """All that scrolled by, and the window."""
        columns = self.screen.columns
        lines = ["".join(line[i].data for i in range(columns)) for line in self.screen.history.top]
        lines += self.screen.display
        return "\n".join(line.rstrip() for line in lines)


@pytest.fixture(scope="module")
def written() -> str:
    """What a crawl without a terminal writes to stderr."""
    ended = run(*COMMAND, "30", cwd=ROOT, env=os.environ, within_s=LIMIT_SECONDS)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    return ended.stderr


def test_log_lines_do_not_tear_the_panel(tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    with Terminal("90", str(go_on), "61", columns=200, rows=24) as terminal:
        terminal.read_until(lambda: "Line 60 begins" in terminal.shown and _is_whole(terminal.shown))
        go_on.touch()
        terminal.read_to_end()
        lines = terminal.text.splitlines()
    logged = [line for line in lines if "WARNING: Line" in line]
    assert [re.search(r"Line (\d+) begins x{100} .* ends$", line) is not None for line in logged] == [True] * 30
    assert not [line for line in lines if line.startswith(("╭", "│", "╰"))], "the panel is gone at the end"
    assert not terminal.screen.cursor.hidden


def _is_whole(shown: str) -> bool:
    """Whether the window ends with exactly one panel, and has nothing but log lines above it."""
    rows = shown.rstrip().splitlines()
    tops = [number for number, row in enumerate(rows) if row.startswith("╭─ watched-1")]
    if len(tops) != 1 or not rows[-1].startswith("╰"):
        return False
    above, inside = rows[: tops[0]], rows[tops[0] + 1 : -1]
    return all(row.startswith("│") and row.endswith("│") for row in inside) and "│" not in "".join(above)


def test_panel_fits_a_small_terminal_and_one_that_knows_only_ascii() -> None:
    with Terminal("90", environ={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}) as terminal:
        terminal.read_until(lambda: re.search(r"\| Waiting +api\.example ", terminal.shown) is not None)
        terminal.read_to_end()
    assert terminal.raw.isascii()
    assert terminal.process.wait() == 0


def test_panel_in_a_low_terminal_shows_what_is_waited_for_and_leaves_nothing_behind() -> None:
    with Terminal("30", columns=120, rows=7) as terminal:
        terminal.read_until(lambda: "Waiting" in terminal.shown and _is_whole(terminal.shown))
        terminal.read_to_end()
    assert "watched-1 is complete" in terminal.text
    assert "╭" not in terminal.text
    assert "│" not in terminal.text


def test_first_ctrl_c_says_what_is_finished_and_how_to_continue(tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    with Terminal("5", str(go_on), columns=200, rows=50) as terminal:
        terminal.read_until(lambda: "5 waiting" in terminal.shown)
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until(lambda: "Stopping" in terminal.shown)
        assert re.search(r"\d requests? in flight.*Ctrl-C", terminal.text)
        go_on.touch()
        terminal.read_to_end()
    assert terminal.text.rstrip().endswith(typed(go_on))
    assert "watched-1 is stopped" in terminal.text


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_ctrl_c_leaves_no_part_of_a_panel_behind_however_narrow_the_terminal(columns: int, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    with Terminal("5", str(go_on), columns=columns, rows=24) as terminal:
        terminal.read_until(lambda: "5 waiting" in terminal.shown)
        os.write(terminal.ours, b"\x03")  # the terminal itself writes ^C where the cursor stands
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until(lambda: "Stopping" in terminal.shown)
        assert b"^C" in terminal.raw
        assert _is_whole(terminal.shown), terminal.shown
        go_on.touch()
        terminal.read_to_end()
    assert "watched-1 is stopped" in " ".join(terminal.text.split())
    assert not re.search("[╭│╰╮╯]", terminal.text)


def test_second_ctrl_c_leaves_a_whole_terminal_and_says_how_to_continue(tmp_path: Path) -> None:
    never = tmp_path / "never"
    with Terminal("5", str(never), columns=200, rows=50) as terminal:
        terminal.read_until(lambda: "5 waiting" in terminal.shown)
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until(lambda: "Stopping" in terminal.shown)
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_to_end()
    assert "watched-1 is stopped" in terminal.text
    assert terminal.text.rstrip().endswith(typed(never))
    assert not terminal.screen.cursor.hidden
    assert "╭" not in terminal.shown


@pytest.mark.parametrize("variable", ["NO_LIVE", "CI"])
def test_no_panel_when_it_is_not_wanted(variable: str) -> None:
    with Terminal("5", environ={variable: "1"}) as terminal:
        terminal.read_to_end()
    assert "Ctrl-C" not in terminal.text
    assert "5 of 5 accounts, 5 pages" in terminal.text


def test_without_a_terminal_there_are_plain_lines_and_a_plain_summary(written: str) -> None:
    assert "\x1b" not in written
    (*_, last) = (line for line in written.splitlines() if "INFO: " in line and "30 of 30 accounts" in line)
    assert re.search(r" 30 pages \([\d.]+/s\)", last)
    assert re.search(r" 300 records \([\d,.]+/s\)", last)
    assert "api.example" in last
    summary = written[written.rindex("watched-1 is ") :]
    assert "complete" in summary
    assert re.search("accounts +30 of 30", summary)
    assert "300 posts" in summary
    assert "INFO" not in summary, "the summary is the last that is written"
    assert "watched_crawl" not in summary


def test_pages_and_items_are_not_logged_and_errors_take_a_line_and_a_traceback_without_secrets(written: str) -> None:
    assert "Crawled" not in written
    assert "zzz" not in written
    (error,) = [line for line in written.splitlines() if "ERROR" in line]
    assert "data:,7: ValueError: seven mongodb://host/" in error
    assert error.endswith(f"watched_crawl.py:{_line_of('raise ValueError')})")
    assert len(error) < 600
    assert "secret" not in written
    assert written.count("Traceback") == 1
    assert "\nValueError: seven mongodb://host/" in written


def typed(file: Path) -> str:
    """The command that continues the crawl, as the summary prints it."""
    return f"python -m tests.dashboard.watched_crawl 5 {file}"


def _line_of(text: str) -> int:
    source = (Path(__file__).parent / "watched_crawl.py").read_text("utf-8")
    return 1 + source[: source.index(text)].count("\n")
