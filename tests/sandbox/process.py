"""The site in a process of its own, for tests: started, asked, stopped."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from functools import cached_property
from types import TracebackType
from typing import IO, Any, Self

from harvester.sandbox.network import Network, special
from harvester.sandbox.posts import Posts
from harvester.sandbox.records import SandboxRecords
from harvester.sandbox.server import build_world
from harvester.sandbox.truth import Truth, truth
from tests.forking import Begun, begin
from tests.root import ROOT as ROOT


class Sandbox:
    """`with Sandbox(accounts=200) as site: ...site.url...`; the process ends with the block, and with its parent."""

    def __init__(
        self, accounts: int = 200, seed: int = 1, posts: int = 30, *, forked: bool = True, **options: int | float
    ) -> None:
        """`forked`: from the process of tests/forking.py. What starts no other process begins it from nothing."""
        self.accounts, self.seed, self.posts = accounts, seed, posts
        self._forked = forked
        self._options: Mapping[str, int | float] = options
        self._process: Begun | subprocess.Popen[bytes] | None = None
        self._streams: list[IO[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the process and wait until it answers."""
        wishes = {"accounts": self.accounts, "seed": self.seed, "posts": self.posts} | dict(self._options)
        arguments = [part for key, value in wishes.items() for part in (f"--{key.replace('_', '-')}", str(value))]
        words = ["tests.sandbox", "--port", "0", "--until-stdin-closes", *arguments]
        (stdin, its_life), (its_words, stdout) = os.pipe(), os.pipe()
        self._streams = [os.fdopen(its_words, "rb"), os.fdopen(its_life, "wb")]
        try:
            if self._forked:
                self._process = begin(*words, cwd=ROOT, env=os.environ, files=[stdin, stdout, 2])
            else:
                self._process = subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdin=stdin, stdout=stdout)
        finally:
            os.close(stdin)
            os.close(stdout)
        line = self._streams[0].readline()
        if not line:
            raise RuntimeError(f"the sandbox ended with status {self._process.wait()} before it was ready")
        self.url = json.loads(line)["service"]
        return self

    def stop(self) -> None:
        """End the process; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in self._streams:
            stream.close()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @cached_property
    def records(self) -> SandboxRecords:
        """The same generated network, in this process."""
        return build_world(self.accounts, self.seed, self.posts)

    @property
    def network(self) -> Network:
        return self.records.network

    @property
    def world(self) -> Posts:
        """The posts of the network."""
        return self.records.posts

    @cached_property
    def truth(self) -> Truth:
        """What a complete harvest from account 0 must find."""
        return truth(self.records)

    def truth_of(self, honour_opt_outs: bool = True, **limits: Any) -> Truth:
        return truth(self.records, honour_opt_outs, **limits)

    def did(self, name: str | int) -> str:
        """The DID of an account by its number or by its special kind."""
        return self.network.did(name if isinstance(name, int) else special()[name])

    def handle(self, name: str | int) -> str:
        return self.network.handle(name if isinstance(name, int) else special()[name])

    def fault(self, kind: str, match: str = ".*", **wishes: Any) -> int:
        """Bring a fault into force; see `faults`. Returns its number."""
        report = self._control("POST", "faults", {"kind": kind, "match": match} | wishes)
        return int(report["id"])

    def faults(self) -> list[dict[str, Any]]:
        """The faults in force with what they did; `breaches` are requests inside an asked-for silence."""
        found: list[dict[str, Any]] = self._control("GET", "faults")
        return found

    def clear_faults(self, *numbers: int) -> None:
        """Ends these faults; without numbers, all."""
        self._control("DELETE", "faults?" + "&".join(f"id={number}" for number in numbers))

    def settings(self, **wishes: Any) -> None:
        """`session_limit`, `pds_limit`, `repo_limit`, `window_seconds`, `access_seconds`, `revoke`, `expire`."""
        self._control("POST", "settings", wishes)

    def log(self, last: int | None = None) -> dict[str, Any]:
        """Counters, highest concurrency and the last requests."""
        found: dict[str, Any] = self._control("GET", "log" if last is None else f"log?last={last}")
        return found

    def clear_log(self) -> None:
        self._control("DELETE", "log")

    def _control(self, method: str, name: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_control/{name}", data=data, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as response:
            return json.loads(response.read())
