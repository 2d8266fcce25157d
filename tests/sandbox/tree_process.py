"""The tree's site in a process of its own, for tests: started, asked, stopped."""

import json
import os
import urllib.request
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.forking import begin
from tests.root import ROOT
from tests.sandbox.tree import Tree


class Progress(NamedTuple):
    """How far a crawl has come, as the site sees it."""

    pages: int
    """Different ones answered."""
    agents: dict[str, int]
    """Requests by User-Agent."""


class TreeSite:
    """`with TreeSite(Tree(3000)) as site: ...site.url...`; the process ends with the block, and with its parent."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.url = ""

    def __enter__(self) -> Self:
        kind, numbers = type(self.tree).__name__.lower(), map(str, self.tree)
        (stdin, its_life), (its_words, stdout) = os.pipe(), os.pipe()
        self._streams = os.fdopen(its_words, "rb"), os.fdopen(its_life, "wb")
        program = "tests.sandbox.tree_site"
        self._process = begin(program, kind, *numbers, cwd=ROOT, env=os.environ, files=[stdin, stdout, 2])
        os.close(stdin)
        os.close(stdout)
        line = self._streams[0].readline()
        assert line, f"the site ended with status {self._process.wait()} before it was ready"
        self.url = f"http://127.0.0.1:{int(line)}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in self._streams:
            stream.close()

    def progress(self) -> Progress:
        return Progress(**self._asked("progress"))

    def log(self) -> dict[str, int]:
        """How often each path was answered, refusals with 503 left out."""
        found: dict[str, int] = self._asked("log")
        return found

    def _asked(self, name: str) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/_control/{name}", timeout=30) as answer:
            return json.loads(answer.read())
