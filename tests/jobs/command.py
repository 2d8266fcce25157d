"""The command `harvester jobs`, run in this process or in one of its own, on the servers of the tests."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harvester.cli import main
from tests.forking import Ran, run
from tests.root import ROOT

HARVESTER = str(Path(sys.executable).with_name("harvester"))


class Answer(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Jobs:
    """`harvester jobs`, in `folder`, whose data folder is `folder/data`."""

    def __init__(
        self,
        folder: Path,
        variables: Mapping[str, str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.folder = folder
        self.variables = dict(variables)
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str) -> Answer:
        """In this process."""
        return self.harvester("jobs", *words)

    def harvester(self, *words: str) -> Answer:
        """Any command, in this process."""
        self._monkeypatch.setattr(sys, "argv", ["harvester", *words])
        with _signals_kept(), pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        return Answer(int(ended.value.code or 0), out, err)

    def submit(self, text: str | bytes, *words: str, name: str = "input.txt") -> Answer:
        """Of a file with this in it, to the spider `parcels`."""
        path = self.write(text, name)
        return self("submit", "parcels", "--input", str(path), *words)

    def submitted(self, text: str | bytes, *words: str, name: str = "input.txt") -> str:
        """The job that it makes."""
        answer = self.submit(text, "--json", *words, name=name)
        assert answer.code == 0, answer.err
        job: str = answer.json["job"]
        return job

    def write(self, text: str | bytes, name: str) -> Path:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def run(self, *words: str, stdin: bytes = b"") -> Ran:
        """In a process of its own."""
        ran = run(HARVESTER, "jobs", *words, cwd=self.folder, env={**os.environ, **self.variables}, stdin=stdin)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran


def numbers_in(text: str) -> list[int]:
    """The whole numbers of a printed text, in their order, without those that are parts of names and dates."""
    return [int(number.replace(",", "")) for number in re.findall(r"(?<![\w.:-])\d[\d,]*(?![\w:-]|\.\d)", text)]


def measured(jobs: Jobs, *words: str, within_s: float = 240) -> tuple[Ran, float]:
    """What the command did, and its peak memory in MB."""
    told = jobs.folder / "peak"
    environment = {**os.environ, **jobs.variables}
    ran = run("tests.jobs.measured", str(told), "jobs", *words, cwd=ROOT, env=environment, within_s=within_s)
    return ran, int(told.read_text()) / 1000


@contextmanager
def _signals_kept() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
