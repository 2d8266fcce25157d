"""A small website of pictures on loopback, which notes what it was asked."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MISLEADING_TYPES = ("image/jpeg", "text/html", "application/octet-stream", "image/png")


class Site(ThreadingHTTPServer):
    """`bodies` are its pages, by the last part of the path.

    `/status/<code>/...` answers with that status, `/moved/<x>` leads to `/<x>`, `/endless/...` never stops.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: dict[str, bytes] = {}
        self.hits: Counter[str] = Counter()
        self.open_gate = threading.Event()
        """Paths below /gated/ are answered when it is set."""
        self.at_once = 0
        self.most_at_once = 0
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing: crawls that are killed leave in the middle of an answer."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.hits[self.path] += 1
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        try:
            self._answer()
        finally:
            with self.server.lock:
                self.server.at_once -= 1

    def _answer(self) -> None:
        if self.path.startswith("/gated/"):
            self.server.open_gate.wait(240)
        if self.path.startswith("/status/"):
            self._send(int(self.path.split("/")[2]), b"no")
        elif self.path.startswith("/moved/"):
            self._send(302, b"", Location=self.path.removeprefix("/moved"))
        elif self.path.startswith("/endless/"):
            self._stream()
        elif (body := self.server.bodies.get(self.path.rpartition("/")[2].partition("?")[0])) is not None:
            self._send(200, body)
        else:
            self._send(404, b"not here")

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", MISLEADING_TYPES[len(self.path) % len(MISLEADING_TYPES)])
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        """Does not say how much will come, and goes on until the other side leaves."""
        self.send_response(200)
        self.send_header("Content-Type", "image/jpeg")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(65_536))
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield site
        finally:
            site.open_gate.set()
            site.shutdown()
            thread.join()
