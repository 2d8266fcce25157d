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
        """The stats of the images pipeline without their common beginning."""
        start = "harvester/images/"
        return {name.removeprefix(start): n for name, n in self.stats.items() if name.startswith(start)}

    @property
    def records(self) -> list[dict[str, Any]]:
        """Those that reached the end of the pipelines."""
        path = Path(f"{self._path}.out")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real S3 server; yields the variables that lead to it."""
    folder = tmp_path_factory.mktemp("s3")
    port = free_port(6)
    keys = {
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    command = [str(Path(sys.executable).with_name("weed")), "mini", f"-dir={folder}", "-ip=127.0.0.1"]
    command += ["-ip.bind=127.0.0.1", "-admin.ui=false", "-webdav=false", "-master.telemetry=false"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    names = ("s3", "master", "volume", "filer", "admin")
    command += [f"-{name}.port={port + n}" for n, name in enumerate(names)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=os.environ | keys, cwd=folder, stdout=log, stderr=log)
    variables = keys | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    try:
        deadline = time.monotonic() + 240
        while True:
            with contextlib.suppress(ClientError, BotoCoreError), _s3_client(variables) as client:
                client.create_bucket(Bucket="ready")
                break
            assert server.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < deadline, (folder / "server.log").read_text()
            time.sleep(0.1)
        yield variables
    finally:
        server.terminate()
        server.wait(240)


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
