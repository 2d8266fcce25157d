"""A site of pictures, and crawls that fetch from it in a process of their own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from harvester.config import Config
from tests.forking import begin
from tests.images.samples import GOOD, REFUSED
from tests.images.server import Site, serving
from tests.ports import free_port
from tests.root import ROOT


class Run:
    """A crawl in a process of its own."""

    def __init__(self, folder: Path, environment: dict[str, str], specification: dict[str, Any]) -> None:
        self._path = folder / f"crawl-{uuid4().hex}.json"
        self._path.write_text(json.dumps(specification))
        self._log = self._path.with_suffix(".log")
        variables = os.environ | environment
        with self._log.open("wb") as log:
            files = [None, log.fileno(), log.fileno()]
            self.process = begin("tests.images.crawl", str(self._path), cwd=ROOT, env=variables, files=files)

    def end(self, by: signal.Signals | None = None) -> "Run":
        """Waits for the end; sends a signal first when one is given."""
        if by:
            self.process.send_signal(by)
        self.process.wait(240)
        print(self.log[-4000:])  # shown when the test fails
        return self

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def stats(self) -> dict[str, Any]:
        path = Path(f"{self._path}.stats")
        assert path.exists(), self.log
        stats: dict[str, Any] = json.loads(path.read_text())
        return stats

    @property
    def images(self) -> dict[str, int]:
        """What the files pipeline counts of pictures."""
        return self._below("harvester/images/")

    @property
    def pdfs(self) -> dict[str, int]:
        """And of PDFs."""
        return self._below("harvester/pdfs/")

    def _below(self, start: str) -> dict[str, int]:
        return {name.removeprefix(start): n for name, n in self.stats.items() if name.startswith(start)}

    @property
    def records(self) -> list[dict[str, Any]]:
        """Those that reached the end of the pipelines."""
        path = Path(f"{self._path}.out")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class S3Server:
    """A real one. What it confirmed is there when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port(6)
        self._keys = {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self.variables = self._keys | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}"}
        """Those that lead to it."""

    def start(self) -> None:
        """Returns when it answers."""
        command = [str(Path(sys.executable).with_name("weed")), "mini", f"-dir={self._folder}", "-ip=127.0.0.1"]
        command += ["-ip.bind=127.0.0.1", "-admin.ui=false", "-webdav=false", "-master.telemetry=false"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
        names = ("s3", "master", "volume", "filer", "admin")
        command += [f"-{name}.port={self._port + n}" for n, name in enumerate(names)]
        path = self._folder / "server.log"
        with path.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=os.environ | self._keys, cwd=self._folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 240
        while True:
            with contextlib.suppress(ClientError, BotoCoreError), self.client() as client:
                if "ready" not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
                    client.create_bucket(Bucket="ready")
                client.put_object(Bucket="ready", Key="ready", Body=b"x")
                return
            assert self._process.poll() is None, path.read_text()
            assert time.monotonic() < deadline, path.read_text()
            time.sleep(0.1)

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(by)
        self._process.wait(240)

    @contextmanager
    def client(self) -> Iterator[Any]:
        with _s3_client(self.variables) as client:
            yield client


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real S3 server; yields the variables that lead to it."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server.variables
    server.end()


@contextmanager
def _s3_client(variables: dict[str, str]) -> Iterator[Any]:
    client = boto3.client(
        "s3",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
    )
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def s3(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the S3 server; the variables that lead to it are set."""
    for name, value in s3_server.items():
        monkeypatch.setenv(name, value)
    with _s3_client(s3_server) as client:
        yield client


@pytest.fixture
def bucket(s3: Any) -> str:
    """A new bucket."""
    name = f"bucket-{uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        site.bodies = {"page": b"page"} | GOOD | {name: body for name, (body, _) in REFUSED.items()}
        yield site


@pytest.fixture
def crawl(config: Config, site: Site, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts a crawl of batches; `environment` adds to the variables, other keywords to the specification."""
    assert config.mongodb_uri
    base = {
        "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
        "HARVESTER_DATABASE": config.database,
        "HARVESTER_STATE_DIR": str(config.state_dir),
        "HARVESTER_DATA_DIR": str(config.data_dir),
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
        "HARVESTER_MAX_IMAGE_MB": "1",
        "HARVESTER_MAX_PDF_MB": "1",
    }
    started: list[Run] = []

    def start(batches: list[list[dict[str, Any]]], environment: dict[str, str] | None = None, **rest: Any) -> Run:
        specification = {"page": f"{site.origin}/page", "batches": batches} | rest
        started.append(Run(tmp_path, base | (environment or {}), specification))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()
        run.process.wait()
