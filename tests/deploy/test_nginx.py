"""deploy/nginx.conf in a real nginx before a real controller: the page, its socket, an upload and the command."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect
from pymongo.database import Database

from tests.control.browsing import HARVESTER, ControlRoom, chromium, logged_in, seed, service_of
from tests.crash.harvest import Document
from tests.ports import free_port
from tests.root import ROOT
from tests.sandbox.street_tls import tls_context

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed: apt-get install nginx-light"),
]
LONGEST_S = 60


@contextmanager
def nginx(folder: Path, controller: str) -> Iterator[str]:
    """Address of the file as it stands, but for its name, its ports and its certificate."""
    tls_context(folder, "http/1.1")
    port, certificate = free_port(), folder / "street.pem"
    text = (ROOT / "deploy" / "nginx.conf").read_text("utf-8")
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("harvester.example.org", "localhost"),
        ("/etc/ssl/harvester/fullchain.pem", str(certificate)),
        ("/etc/ssl/harvester/privkey.pem", str(certificate)),
        ("http://127.0.0.1:8000", controller),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    temporary = "".join(
        f"{kind}_temp_path {folder / kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    where = f"pid {folder / 'pid'};\ndaemon off;\nerror_log {folder / 'error.log'};\nevents {{}}\n"
    file = folder / "nginx.conf"
    file.write_text(f"{where}http {{\naccess_log off;\n{temporary}{text}}}\n")
    with subprocess.Popen(["nginx", "-c", str(file), "-e", str(folder / "error.log")]) as process:
        try:
            until_it_listens(process, port)
            yield f"https://localhost:{port}"
        finally:
            process.terminate()


def until_it_listens(process: "subprocess.Popen[bytes]", port: int) -> None:
    ends = time.monotonic() + LONGEST_S
    while time.monotonic() < ends:
        assert process.poll() is None
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("nginx does not listen")


async def test_a_team_reaches_the_page_the_api_and_the_command_by_tls(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.cli_settings")
    variables = {
        "HARVESTER_MONGODB_URI": mongodb_uri,
        "HARVESTER_REDIS_URL": own_redis,
        "HARVESTER_DATABASE": mongodb.name,
        "HARVESTER_CONTROL_PROXIES": "127.0.0.1",
    }
    with ControlRoom(tmp_path, variables) as room, nginx(tmp_path, room.url) as url:
        async with chromium() as browser, logged_in(browser, url, room.token, ignore_https_errors=True) as seen:
            [cookie] = await seen.page.context.cookies()
            assert (cookie["secure"], cookie["httpOnly"]) == (True, True)
            page = await seen.go("/jobs")
            async with service_of(room) as service:
                job = await seed(service, room.folder, ["1", "2"])
            await expect(page.get_by_role("link", name=job.id)).to_be_visible()
            assert all(asked.startswith((url, "data:")) for asked in seen.asked)
        lines = tmp_path / "numbers.txt"
        lines.write_text("".join(f"{number}\n" for number in range(1, 50_001)))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HARVESTER_TOKEN": room.token, "HARVESTER_URL": url}
        environment["SSL_CERT_FILE"] = str(tmp_path / "street.pem")
        command = [HARVESTER, "jobs", "submit", "parcels", "--input", str(lines)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S)  # noqa: ASYNC221
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "50,000 items accepted" in ran.stdout
        with socket.create_connection(("localhost", int(url.rpartition(":")[2])), LONGEST_S) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"400 The plain HTTP request was sent to HTTPS port" in plain.recv(4096)
