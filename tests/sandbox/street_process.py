"""The street in a process of its own, for tests: started, asked, stopped; and its entries in the registry of sites."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from tests.root import ROOT
from tests.sandbox.street_house import Seen
from tests.sandbox.street_plan import HousePlan


class Street:
    """`with Street(plans, folder) as street: ...`; the process ends with the block, and with its parent."""

    def __init__(self, plans: Sequence[HousePlan], folder: Path) -> None:
        self.plans = {plan.name: plan for plan in plans}
        self.ports: dict[str, int] = {}
        self._folder = folder

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "street.json"
        file.write_bytes(msgspec.json.encode(list(self.plans.values())))
        command = [sys.executable, "-m", "tests.sandbox.street", str(file)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, f"the street ended with status {self._process.wait()} before it was ready"
        told = json.loads(line)
        self._control = f"http://127.0.0.1:{told['control']}"
        self.ports = told["sites"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            stream.close()

    def host(self, name: str) -> str:
        """Host and port of a site."""
        return f"127.0.0.1:{self.ports[name]}"

    def url(self, name: str, path: str = "") -> str:
        scheme = "http" if self.plans[name].scheme == "http" else "https"
        return f"{scheme}://{self.host(name)}{path}"

    def counts(self) -> dict[str, dict[str, int]]:
        """By site: `requests`, `pages`, `status <code>`, and what its kind counts."""
        found: dict[str, dict[str, int]] = self._asked("/counts")
        return found

    def log(self, name: str) -> list[Seen]:
        """The requests that a site saw, in order."""
        return [Seen(*line) for line in self._asked(f"/log?site={name}")]

    def switch(self, name: str, to: str) -> None:
        """A site refuses from now on (a word of street_plan.REFUSALS), is `well`, or goes on as `planned`."""
        self._asked(f"/switch?site={name}&to={to}", b"")

    def forget(self, name: str) -> None:
        """Every session of a site with logins ends."""
        self._asked(f"/forget?site={name}", b"")

    def register(self, folder: Path, tables: Mapping[str, str] = {}) -> Path:
        """A folder for HARVESTER_SITES_DIR: an entry for each site, its name the key.

        `tables` are further lines of TOML by site, the headings of whose tables begin with a dot:
        `{"well-00": "[.politeness]\\ndelay_s = 1"}`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        entries = [
            f'[{name}]\nhosts = ["{self.host(name)}"]\n' + tables.get(name, "").replace("[.", f"[{name}.") + "\n"
            for name in self.plans
        ]
        (folder / "street.toml").write_text("\n".join(entries))
        return folder

    def _asked(self, path: str, body: bytes | None = None) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self._control + path, body, timeout=30) as answer:
            return json.loads(answer.read())
