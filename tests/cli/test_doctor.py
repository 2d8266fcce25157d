"""`harvester doctor` finds what is missing and says how to mend it; it exits with 0 when nothing fails."""

import asyncio
import errno
import importlib.metadata
import os
import re
import shutil
from collections import namedtuple
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from harvester.browser import chromium
from harvester.cli import doctor
from harvester.cli.app import app
from harvester.cli.doctor import Level
from harvester.config import Config, load_config, read_config
from harvester.exceptions import UsageError

Usage = namedtuple("Usage", ["total", "used", "free"])


class Site(HTTPServer):
    """A website that answers as its attributes say."""

    status = 200
    date = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.send_response_only(self.server.status)
        self.send_header("Date", self.server.date)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Keeps stderr clean."""


@pytest.fixture
def site() -> Iterator[Site]:
    """A site whose clock agrees with ours."""
    with Site(("127.0.0.1", 0), Handler) as server:
        server.date = format_datetime(datetime.now(UTC), usegmt=True)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def healthy(config: Config, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.mongodb_uri
    monkeypatch.setenv("MONGODB_URI", config.mongodb_uri.get_secret_value())
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("HARVESTER_DATABASE", config.database)
    monkeypatch.setenv("HARVESTER_DATA_DIR", str(config.data_dir))
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(config.state_dir))
    monkeypatch.setenv("HARVESTER_CONTACT", "mailto:ann@ann.example")


def run(site: Site) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", "--site", site.url])
    assert not result.exception or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def finding_of(output: str, level: str, subject: str) -> str:
    """The first line of the first such finding, without its level and subject. Fails when there is none."""
    found = re.search(rf"^{level} +{subject} +(.+)$", output, re.MULTILINE)
    assert found, output
    return found[1]


@pytest.fixture
def no_headless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Chromium without windows is looked for: that of Debian is not found by PATH."""
    monkeypatch.setattr(chromium, "HEADLESS", ())


@pytest.mark.usefixtures("healthy", "no_headless")
def test_a_healthy_machine_passes(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 100 * 1000**3))
    (tmp_path / "chromium").write_text("#!/bin/sh\necho Chromium 1.2\n")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    code, output = run(site)
    assert code == 0
    assert [line.split()[0] for line in output.splitlines()] == ["ok"] * 14
    assert "Chromium 1.2" in output


@pytest.mark.usefixtures("healthy")
def test_the_bluesky_of_the_settings_is_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_BLUESKY_SERVICE", site.url)
    output = CliRunner().invoke(app, ["doctor"]).output
    assert f"{site.url}xrpc/_health" in output


@pytest.mark.usefixtures("healthy")
def test_misspelt_settings_are_named_once(
    config: Config, site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert doctor.settings(config).level is Level.OK
    monkeypatch.setenv("HARVESTER_REQUEST_PER_SECOND", "1")
    monkeypatch.setenv("HARVESTER_LEASE_SECOND", "1")
    finding = doctor.settings(config)
    assert finding.level is Level.WARN
    assert [re.findall(r"HARVESTER_\w+", line) for line in finding.text.splitlines()] == [
        ["HARVESTER_LEASE_SECOND", "HARVESTER_LEASE_SECONDS"],
        ["HARVESTER_REQUEST_PER_SECOND", "HARVESTER_REQUESTS_PER_SECOND"],
    ]
    load_config.cache_clear()
    assert len(re.findall(r"HARVESTER_LEASE_SECOND\b", run(site)[1])) == 1
    assert "HARVESTER_LEASE_SECOND" not in caplog.text


@pytest.mark.usefixtures("healthy")
def test_an_unreachable_mongodb_fails_and_no_password_is_shown(
    site: Site, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    monkeypatch.setattr(doctor, "SERVER_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setenv("MONGODB_URI", f"mongodb://me:hunter2@127.0.0.1:{free_port}")
    code, output = run(site)
    assert code == 1
    assert "fail  MongoDB" in output
    assert "check MONGODB_URI" in output
    assert "hunter2" not in output


@pytest.mark.parametrize("uri", ["mongodb:///", "http://127.0.0.1"])
def test_an_address_that_is_none_fails(uri: str) -> None:
    finding, _ = doctor.mongodb(Config(mongodb_uri=SecretStr(uri)))
    assert finding.level is Level.FAIL
    assert doctor.redis(Config(redis_url=SecretStr(uri))).level is Level.FAIL


@pytest.mark.usefixtures("healthy")
def test_without_a_contact_it_says_what_to_set(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARVESTER_CONTACT")
    code, output = run(site)
    assert code == 0
    assert finding_of(output, "warn", "Contact")
    assert "HARVESTER_CONTACT" in output


@pytest.mark.usefixtures("healthy")
def test_what_would_end_a_run_at_its_beginning_is_found(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sites.toml").write_text(
        '[county]\nhosts = ["county.example"]\n'
        '[county.proxy]\ntiers = ["residential"]\nvendor = "list"\n'
        '[county.identities]\nkind = "token"\ncredentials = "COUNTY"\n'
        '[county.identities.token]\nurl = "https://county.example/login"\nbody = {}\ntoken = "token"\n'
    )
    (tmp_path / "proxies.txt").write_text("127.0.0.1:1 datacenter\n")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    monkeypatch.setenv("HARVESTER_PROXIES_FILE", str(tmp_path / "proxies.txt"))
    monkeypatch.setenv("HARVESTER_SMTP_HOST", "mail.example")
    monkeypatch.setenv("HARVESTER_IMAGES_STORE", "gopher://pictures")
    monkeypatch.setenv("HARVESTER_BLUESKY_IDENTIFIER", "ann.example")
    code, output = run(site)
    assert code == 1
    assert finding_of(output, "ok", "Proxies").startswith("1 ")
    assert "[county]" in finding_of(output, "fail", "Sites")
    assert "residential" in output
    assert "HARVESTER_SESSION_COUNTY_USER" in output
    assert finding_of(output, "warn", "Alerts")
    assert "'gopher://pictures'" in finding_of(output, "fail", "Folder for images")
    assert "password" in finding_of(output, "fail", "Logins")
    (tmp_path / "proxies.txt").write_text("127.0.0.1:1\nsocks5://127.0.0.1:2\n")
    (tmp_path / "sites.toml").write_text('[county]\nhosts = ["https://county.example/"]\n')
    code, output = run(site)
    assert finding_of(output, "fail", "Proxies")
    assert "line 2: " in output
    assert finding_of(output, "fail", "Sites")
    assert "'https://county.example/'" in output
    assert "'county.example'" in output


def test_settings_that_cannot_be_read_are_a_finding(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_ALERT_WEBHOOK_URL", "hooks.example/sesame")
    code, output = run(site)
    assert code == 1
    assert finding_of(output, "fail", "Settings")
    assert "HARVESTER_ALERT_WEBHOOK_URL" in output
    assert "sesame" not in output


def test_a_setting_that_is_refused_says_what_to_give_and_shows_no_regular_expression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patterns = {
        name: each.pattern
        for name, field in Config.model_fields.items()
        for each in field.metadata
        if getattr(each, "pattern", None)
    }
    assert {"contact", "database", "private_hosts"} < patterns.keys()
    for name in patterns:
        monkeypatch.setenv(f"HARVESTER_{name.upper()}", " @")
    with pytest.raises(UsageError) as refused:
        read_config()
    (_, *lines) = str(refused.value).splitlines()
    assert len(lines) == len(patterns)
    assert all(": give " in line for line in lines), lines


def test_bounds_of_old_files_that_no_worker_can_read_are_a_finding() -> None:
    finding = doctor.settings(Config(retention="logs=soon"))
    assert finding.level is Level.WARN
    assert finding.text.startswith("HARVESTER_RETENTION: logs: 'soon'")
    assert doctor.settings(Config()).level is Level.OK


def test_an_unreachable_redis_fails(free_port: int) -> None:
    finding = doctor.redis(Config(redis_url=SecretStr(f"redis://:hunter2@127.0.0.1:{free_port}")))
    assert finding.level is Level.FAIL
    assert "REDIS_URL" in finding.remedy
    assert "hunter2" not in finding.text


def test_a_postgresql_is_looked_at_where_one_is_set(postgres_address: str) -> None:
    config = Config(postgres_uri=SecretStr(postgres_address))
    found = doctor.postgres(config, postgres_address)
    assert (found.level, found.text) == (Level.OK, "127.0.0.1/postgres, schema harvester")
    found = doctor.postgres(config, "mysql://ann:secret@db.example/x")
    assert found.level is Level.FAIL
    assert found.text.startswith("HARVESTER_POSTGRES_URI")
    assert "secret" not in found.text


def test_sinks_are_looked_at_where_there_is_a_file_of_them(tmp_path: Path) -> None:
    file = tmp_path / "publish.toml"
    file.write_text('[posts]\nkind = "redis"\nrecords = ["post"]\n')
    found = doctor.publishing(Config(publish_file=file))
    assert (found.level, found.text.split(";")[0]) == (Level.OK, "to posts")
    file.write_text('[posts]\nkind = "redis"\nrecords = ["toast"]\n')
    found = doctor.publishing(Config(publish_file=file))
    assert found.level is Level.FAIL
    assert "posts.records" in found.text
    assert "'toast'" in found.text


def test_private_servers_that_cannot_start_are_explained(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    config = Config(state_dir=tmp_path / "state")
    finding, _ = doctor.mongodb(config)
    assert finding.level is Level.FAIL
    assert "HARVESTER_STATE_DIR" in finding.text
    finding = doctor.redis(config)
    assert (finding.level, finding.remedy) == (Level.FAIL, "")  # no crawl begins without it
    assert "HARVESTER_STATE_DIR" in finding.text


def test_missing_and_wrong_packages_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.metadata, "requires", lambda name: ["no-such-thing>=1", "scrapy<1", "x; extra == 'y'"]
    )
    finding = doctor.packages()
    assert finding.level is Level.FAIL
    assert [complaint.split()[0] for complaint in finding.text.split("; ")] == ["no-such-thing", "scrapy"]
    assert finding.remedy == "make setup"


@pytest.mark.usefixtures("no_headless")
def test_no_browser_is_only_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chromium").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    finding = doctor.browser(Config())
    assert finding.level is Level.WARN
    assert "chromium-headless-shell" in finding.remedy
    finding = doctor.browser(Config(chromium="chromum"))
    assert (finding.level, finding.text.split()[0]) == (Level.WARN, "chromum")
    assert "HARVESTER_CHROMIUM" in finding.remedy


@pytest.mark.usefixtures("no_headless")
def test_playwright_s_browsers_are_found_and_the_one_without_windows_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    windows = tmp_path / "chromium-1200" / "chrome-linux" / "chrome"
    headless = tmp_path / "chromium_headless_shell-1200" / "chrome-headless-shell-linux64" / "chrome-headless-shell"
    for browser in (windows, headless):
        browser.parent.mkdir(parents=True)
        browser.write_text("#!/bin/sh\necho Chromium 7\n")
        browser.chmod(0o755)
        assert doctor.browser(Config()) == (Level.OK, "Chromium", f"Chromium 7 at {browser}", "")


def test_chromium_without_windows_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "HEADLESS", chromium.HEADLESS[1:])
    for name in ("chromium", "chrome-headless-shell"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chromium.find_chromium(Config()) == str(tmp_path / "chrome-headless-shell")


@pytest.mark.parametrize(("free", "level"), [(4_999_000_000, Level.WARN), (499_000_000, Level.FAIL), (5e9, Level.OK)])
def test_room_on_disk_is_judged(free: float, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, free))
    assert doctor.folder("data", tmp_path / "not" / "there").level is level
    assert not (tmp_path / "not").exists()


def test_a_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    finding = doctor.folder("data", tmp_path / "data")
    assert finding.level is Level.FAIL
    assert "HARVESTER_DATA_DIR" in finding.remedy
    finding = doctor.folder("data", tmp_path / ("x" * 300))
    assert (finding.level, os.strerror(errno.ENAMETOOLONG) in finding.text) == (Level.FAIL, True)


@pytest.mark.skipif(os.name != "posix", reason="permissions are kept otherwise here")
def test_a_login_that_others_can_read_fails(tmp_path: Path) -> None:
    login = tmp_path / "sessions" / "me.json"
    login.parent.mkdir()
    login.touch(0o600)
    config = Config(state_dir=tmp_path)
    assert doctor.logins(config).level is Level.OK
    login.chmod(0o644)
    finding = doctor.logins(config)
    assert finding.level is Level.FAIL
    assert finding.remedy == f"chmod 600 {login}"


def test_a_site_that_cannot_be_reached_is_a_warning_and_the_clock_is_unknown(free_port: int) -> None:
    finding, date = doctor.reach(f"http://127.0.0.1:{free_port}/", "harvester")
    assert finding.level is Level.WARN
    assert "HTTPS_PROXY" in finding.remedy
    assert date is None
    assert "unknown" in doctor.clock(date, "x").text


async def test_a_site_that_speaks_no_http_is_a_warning() -> None:
    async def garble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async with await asyncio.start_server(garble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        finding, date = await asyncio.to_thread(doctor.reach, f"http://127.0.0.1:{port}/", "harvester")
    assert (finding.level, date) == (Level.WARN, None)
    assert str(port) in finding.text


@pytest.mark.parametrize("address", ["http://[x", "http://a b/", "ftp://a.example/", "a.example"])
def test_an_address_that_cannot_be_asked_is_refused(address: str) -> None:
    answer = CliRunner().invoke(app, ["doctor", "--site", address])
    assert isinstance(answer.exception, UsageError)
    assert "--site" in str(answer.exception)
    assert repr(address) in str(answer.exception)


def test_a_site_that_answers_with_an_error_is_a_warning(site: Site) -> None:
    site.status = 503
    finding, date = doctor.reach(site.url, "harvester")
    assert finding.level is Level.WARN
    assert "503" in finding.text
    assert date


def test_a_clock_that_is_wrong_is_a_warning(site: Site) -> None:
    site.date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    _, date = doctor.reach(site.url, "harvester")
    finding = doctor.clock(date, "the site")
    assert finding.level is Level.WARN
    assert "behind" in finding.text


def test_a_date_that_is_none_is_no_date(site: Site) -> None:
    for date in ("yesterday", f"Thu, 01 Jan 2026 00:00:00 +{'9' * 20}"):
        site.date = date
        assert doctor.reach(site.url, "harvester")[1] is None


def test_the_clock_is_compared_with_a_configured_mongodb_when_the_site_is_silent(
    config: Config, redis_url: str, free_port: int
) -> None:
    config = config.model_copy(update={"redis_url": SecretStr(redis_url)})
    clock = list(doctor.examine(config, f"http://127.0.0.1:{free_port}/"))[-1]
    assert (clock.level, clock.subject, "MongoDB" in clock.text) == (Level.OK, "Clock", True)
