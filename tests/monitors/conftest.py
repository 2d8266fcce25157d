"""A harvest by the toy spider, and sinks at which alerts arrive."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from harvester.config import Config
from tests.forking import Begun, begin
from tests.root import ROOT

DROP = "Drop against earlier runs"


class Posted(NamedTuple):
    """What arrived at a sink."""

    path: str
    headers: dict[str, str]
    body: Any


class HttpSink:
    """Receives POSTs on loopback. It answers with `statuses` in turn, then with 200."""

    def __init__(self) -> None:
        self.posts: list[Posted] = []
        self.statuses: list[int] = []
        self.retry_after = ""
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sink.posts.append(Posted(self.path, dict(self.headers), json.loads(body)))
                self.send_response(sink.statuses.pop(0) if sink.statuses else 200)
                self.send_header("Content-Length", "0")
                self.send_header("Location", f"{sink.url}/elsewhere")
                self.send_header("Retry-After", sink.retry_after)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    """A receiver of webhooks."""
    sink = HttpSink()
    yield sink
    sink.close()


class Toy:
    """Runs the toy spider as a process of its own."""

    def __init__(self, config: Config, environment: dict[str, str]) -> None:
        self.data_dir = config.data_dir
        self.log = config.data_dir.with_name("log")
        assert config.mongodb_uri
        own = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
        self.environment = {
            **own,
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
            "HARVESTER_DATABASE": config.database,
            "HARVESTER_DATA_DIR": str(config.data_dir),
            "HARVESTER_STATE_DIR": str(config.state_dir),
            "NO_PROXY": "127.0.0.1",
            **environment,
        }

    @contextmanager
    def start(self, stats: dict[str, Any], **scenario: Any) -> Iterator[Begun]:
        """A run under way, and no longer than meanwhile."""
        plan = json.dumps({"stats": stats, **scenario})
        with self.log.open("wb") as log:
            files = [None, log.fileno(), log.fileno()]
            process = begin("tests.monitors.toy", plan, cwd=ROOT, env=self.environment, files=files)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def run(self, stats: dict[str, Any], **scenario: Any) -> str:
        """The log of a whole run."""
        with self.start(stats, **scenario) as process:
            code = process.wait(240)
        assert code == 0, self.said
        return self.said

    @property
    def said(self) -> str:
        """The log of the last run."""
        return self.log.read_text()

    def reports(self) -> list[str]:
        """The reports that were written, the oldest first."""
        found = (self.data_dir / "reports" / "toy").glob("*.html")
        return [path.read_text("utf-8") for path in sorted(found, key=lambda path: path.stat().st_mtime_ns)]


@pytest.fixture
def make_toy(config: Config) -> Callable[..., Toy]:
    """Makes a Toy whose environment has the given variables besides those of `config`."""
    return lambda **environment: Toy(config, environment)


@pytest.fixture
def last_run(mongodb: Database[dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """The document of the run that started last."""

    def find() -> dict[str, Any]:
        run = mongodb.runs.find_one(sort=[("started_at", -1)])
        assert run
        return run

    return find


def harvest(posts: int, like_count: float = 1.0) -> dict[str, Any]:
    """Stats of a good harvest of posts, a share of which has a like_count."""
    return {
        "harvester/records/parsed/post": posts,
        "harvester/records/stored/post": posts,
        "harvester/coverage/post/created_at": posts,
        "harvester/coverage/post/text": posts * 9 // 10,
        "harvester/coverage/post/like_count": int(posts * like_count),
        "harvester/outcomes/ok": 100,
        "harvester/items/account/done": 10,
    }
