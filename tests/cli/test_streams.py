"""Where commands write to: it may be closed, full, or of an encoding that lacks what is to be said."""

import subprocess
import sys
from pathlib import Path

import pytest

from harvester import __version__
from tests.forking import Ran

HARVESTER = Path(sys.executable).with_name("harvester")


def shell(words: str) -> Ran:
    """What a command does that a shell starts: streams are closed before Python begins."""
    ran = subprocess.run(["/bin/sh", "-c", f"{HARVESTER} {words}"], capture_output=True, text=True)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize(
    ("words", "ended"),
    [
        ("version >&-", (0, "", "")),
        ("version 2>&-", (0, f"{__version__}\n", "")),
        ("sites show none 2>&-", (2, "", "")),
        ("sites show none <&- >&- 2>&-", (2, "", "")),
    ],
)
def test_a_stream_that_is_closed_changes_neither_the_exit_code_nor_the_other_stream(
    words: str, ended: tuple[int, str, str]
) -> None:
    assert shell(words) == ended


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_standard_output_that_is_full_is_told_in_one_sentence(
    unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    said = "The output cannot be written: No space left on device. Make room; what was done stays.\n"
    assert shell("version >/dev/full") == (4, "", said)
    assert shell("sites show none 2>/dev/full") == (2, "", "")
