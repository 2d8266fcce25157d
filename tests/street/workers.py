"""The workers of a crawl of the street, each a process `scrapy crawl street`."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.forking import Begun, begin
from tests.root import ROOT
from tests.sandbox.street_process import Street
from tests.street.spiders import Inputs


class Workers:
    """`with Workers(street, names, folder, variables) as workers: ...`; none outlives the block."""

    def __init__(self, street: Street, names: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        inputs = [Inputs(street.url(name), street.plans[name].pages) for name in names]
        file = folder / "inputs.json"
        file.write_bytes(msgspec.json.encode(inputs))
        self._command = ["crawl", "street", "-a", f"sites={file}"]
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCRAPY_SETTINGS_MODULE": "tests.street.settings",
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_STATE_DIR": str(folder / "state"),
            "HARVESTER_DATA_DIR": str(folder / "data"),
            **variables,
        }
        self._processes: list[Begun] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def start(self) -> None:
        """One more."""
        number = len(self._processes)
        with (self._folder / f"log-{number}").open("wb") as log:
            files = [None, log.fileno(), log.fileno()]
            command = [*self._command, "-s", f"USER_AGENT=street-{number}"]
            self._processes.append(begin("scrapy", *command, cwd=self._folder, env=self._environment, files=files))

    @property
    def working(self) -> bool:
        """Whether one has not ended."""
        return any(process.poll() is None for process in self._processes)

    def end(self, longest_s: float) -> None:
        """Waits until all have ended by themselves. Fails when one ends with an error, or none in this time."""
        deadline = time.monotonic() + longest_s
        while self.working:
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)
        assert not any(process.returncode for process in self._processes), self.said

    @property
    def said(self) -> str:
        """The end of what each logged."""
        return "\n".join(file.read_text(errors="replace")[-4000:] for file in sorted(self._folder.glob("log-*")))
