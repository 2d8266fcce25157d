"""The real commands, run as a user types them, and what they answer."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.sandbox.process import ROOT

PROGRAMS = Path(sys.executable).parent
AT_ONCE = 3
"""Commands run side by side; most of their time is the start of Python."""
SECONDS = 120
"""After which a command hangs."""

_is_fault = re.compile(
    r"Traceback|Exception ignored|never (?:retrieved|awaited)|Unhandled|\bassert\b|\w+Warning: |\[py\.warnings\]"
).search
"""What a person at a terminal must never see."""


class Answer(NamedTuple):
    """What a command answered."""

    code: int
    said: str
    """All it wrote, on one line, so that a sentence is found however it was wrapped."""
    text: str
    """All it wrote."""

    @property
    def clean(self) -> bool:
        """Whether it speaks to people only: no traceback, no warning of Python's."""
        return not _is_fault(self.text)


class Place:
    """A folder and a database in which commands are run."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self.variables = dict(variables)

    def run(self, *command: str, stdin: bytes = b"", prefix: Sequence[str] = (), **variables: str) -> Answer:
        """Runs `scrapy ...` or `harvester ...`."""
        ended = subprocess.run(
            [*prefix, str(PROGRAMS / command[0]), *command[1:]],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **self.variables, **variables},
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
        text = ended.stdout.decode(errors="replace")
        print(f"$ {' '.join(command)}\n{text}[exit code {ended.returncode}]\n")  # shown when the test fails
        return Answer(ended.returncode, " ".join(text.split()), text)
