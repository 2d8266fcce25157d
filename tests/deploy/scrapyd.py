"""A real Scrapyd in a process of its own, with the project's configuration and a login, on a loopback port."""

import base64
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil

from tests.root import ROOT

USER, PASSWORD = "operator", "sesame: open"
PATIENCE_SECONDS = 240
BARE_PYTHON = os.path.realpath(sys.executable)
"""Without the packages of the environment that the tests run in."""


class Scrapyd:
    """Started in `folder`; jobs inherit `variables`. `entrypoint`: as it is started in a container."""

    def __init__(self, folder: Path, port: int, variables: Mapping[str, str], entrypoint: bool = False) -> None:
        self.folder = folder
        command = folder / "scrapyd"  # a Python that has only what PYTHONPATH says
        command.write_text(f'#!/bin/sh\nexec "{BARE_PYTHON}" -m scrapyd "$@"\n')
        command.chmod(0o755)
        own = [str(ROOT / "deploy/docker/entrypoint"), "scrapyd"] if entrypoint else [str(command)]
        self._command = [*own, "--pidfile="]
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "scrapyd.log"
        conf = ConfigParser()
        conf.read(ROOT / "deploy" / "scrapyd" / "scrapyd.conf")
        for option in ("eggs_dir", "logs_dir", "dbs_dir"):
            conf["scrapyd"][option] = str(folder / option)
        conf["scrapyd"]["poll_interval"] = "0.2"
        with (folder / "scrapyd.conf").open("w") as file:
            conf.write(file)
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONWARNINGS": "ignore",
            "SCRAPYD_HTTP_PORT": str(port),
            "SCRAPYD_USERNAME": USER,
            **({} if "SCRAPYD_PASSWORD_FILE" in variables else {"SCRAPYD_PASSWORD": PASSWORD}),
            **variables,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.wait_for(self._answers)

    def stop(self) -> None:
        """Jobs that are left then are killed."""
        assert self._process
        started = psutil.Process(self._process.pid).children(recursive=True)
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            for process in started:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, self.said
        try:
            return bool(self.get("daemonstatus")["status"] == "ok")
        except OSError:
            return False

    def get(self, call: str, **parameters: str) -> dict[str, Any]:
        return self._ask(f"{call}.json?{urlencode(parameters)}", None)

    def post(self, call: str, **fields: Any) -> dict[str, Any]:
        return self._ask(f"{call}.json", urlencode(fields, doseq=True).encode())

    def schedule(self, project: str = "harvester", spider: str = "bluesky", **fields: Any) -> str:
        """A job of the spider; its id."""
        answer = self.post("schedule", project=project, spider=spider, **fields)
        assert answer["status"] == "ok", answer
        return str(answer["jobid"])

    def state(self, job: str) -> str | None:
        state: str | None = self.get("status", job=job)["currstate"]
        return state

    def finish(self, job: str) -> None:
        """Waits until the job has ended."""
        self.wait_for(lambda: self.state(job) == "finished")

    def wait_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.said
            time.sleep(0.2)

    @property
    def said(self) -> str:
        """Scrapyd's own log, and the ends of its jobs' logs."""
        jobs = "\n".join(path.read_text(errors="replace")[-3000:] for path in self.folder.glob("logs_dir/*/*/*.log"))
        return self._log.read_text(errors="replace")[-5000:] + jobs

    def _ask(self, call: str, data: bytes | None) -> dict[str, Any]:
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(f"{self.url}/{call}", data, {"Authorization": f"Basic {login}"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=240) as response:
            answer: dict[str, Any] = json.loads(response.read())
        return answer
