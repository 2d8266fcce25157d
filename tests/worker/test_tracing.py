"""The way of a request as a trace, told to a receiver of OTLP on loopback, and to nobody where it is off."""

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.middlewares.tracing import TracingMiddleware
from tests.forking import run
from tests.root import ROOT

SPIDER = """
import scrapy

class Small(scrapy.Spider):
    name = "small"

    async def start(self):
        for path in ("/page?key=a", "/missing"):
            yield scrapy.Request(f"{self.site}{path}", self.parse)

    def parse(self, response):
        yield {"a": 1}
        yield {"a": 2}
"""


class Receiver(ThreadingHTTPServer):
    """A site and a receiver of traces in one."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.spans: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answering(BaseHTTPRequestHandler):
    server: Receiver

    def do_GET(self) -> None:
        self.answer(200 if self.path.startswith("/page") else 404, b'{"fine":true}')

    def do_POST(self) -> None:
        told = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in told.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.answer(200, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: pytest would show it."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_a_request_is_told_of_from_its_lease_to_its_acknowledgement(
    config: Config, own_redis: str, tmp_path: Path, receiver: Receiver
) -> None:
    assert config.mongodb_uri
    (tmp_path / "small.py").write_text(SPIDER)
    variables = {
        "HARVESTER_TRACES_URL": f"{receiver.url}/v1/traces",
        "HARVESTER_TRACES_SHARE": "1",
        "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
        "HARVESTER_REDIS_URL": own_redis,
        "HARVESTER_DATABASE": config.database,
        "HARVESTER_STATE_DIR": str(tmp_path),
        "SCRAPY_SETTINGS_MODULE": "harvester.settings",
        "PYTHONPATH": str(ROOT),
    }
    words = ("crawl", "small.py", "-a", f"site={receiver.url}")
    ended = run("scrapy", *words, cwd=tmp_path, env={**os.environ, **variables})
    roots = {attributes(span)["url.full"]: span for span in receiver.spans if span.name == "request"}
    assert set(roots) == {f"{receiver.url}/page?key=a", f"{receiver.url}/missing"}, ended.stderr
    page = roots[f"{receiver.url}/page?key=a"]
    below = {span.name: span for span in receiver.spans if span.parent_span_id == page.span_id}
    assert set(below) == {"download", "parse", "pipelines", "ack"}
    assert attributes(page)["http.response.status_code"] == 200
    assert (attributes(page)["harvester.fate"], attributes(page)["harvester.outcome"]) == ("done", "ok")
    assert {span.trace_id for span in below.values()} == {page.trace_id}
    begun = [below[name].start_time_unix_nano for name in ("download", "parse", "pipelines", "ack")]
    assert page.start_time_unix_nano <= begun[0]
    assert begun == sorted(begun)
    assert all(span.end_time_unix_nano <= page.end_time_unix_nano for span in below.values())
    missing = roots[f"{receiver.url}/missing"]
    assert attributes(missing)["harvester.outcome"] == "not_found"
    assert {span.name for span in receiver.spans if span.parent_span_id == missing.span_id} == {"download"}


def test_where_it_is_off_nothing_is_called(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured):
        TracingMiddleware.from_crawler(get_crawler())
    program = tmp_path / "program.py"
    said = "sys.exit('opentelemetry.exporter.otlp' in sys.modules)"
    program.write_text(f"import sys, harvester.middlewares.tracing\n{said}\n")
    assert run(str(program), cwd=tmp_path, env=os.environ).returncode == 0, "also where all of harvester is imported"
