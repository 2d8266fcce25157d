"""Every channel delivers what happened; what cannot be delivered is logged and does no harm."""

import os
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harvester.alerts import sending
from harvester.alerts.channels import Alert, configured_channels, incomplete_channels
from harvester.alerts.sending import send_with_retries
from harvester.config import Config, read_config
from harvester.exceptions import UsageError
from harvester.monitors.alerts import make_alert
from harvester.monitors.judgement import Judged, Judgement
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER
from tests.monitors.conftest import HttpSink

RUN = {
    "_id": "20260101-000000-abcdef",
    "spider": "bluesky",
    "crawl": "bluesky-1",
    "host": "here",
    "finish_reason": "finished",
    "exit_code": 6,
    "counts": {"post": 1234},
    "report": None,
}
LOST = "post.like_count & <others> were lost."
REFUSED = "a_b.test said no."
JUDGEMENT = Judgement(
    "failed",
    [
        Judged("Lost fields", "failed", LOST),
        Judged("Error ratio", "passed", "None."),
        Judged("Refusals", "failed", REFUSED),
    ],
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PAUSE_SECONDS", 0)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def send(alert: Alert | None = None, **settings: Any) -> list[bool]:
    """Sends through the channels that the settings configure; returns which arrived."""
    config = Config(**settings)
    channels = configured_channels(config, alert or make_alert(RUN, JUDGEMENT))
    return [send_with_retries(name, channel) for name, channel in channels.items()]


def long_alert() -> Alert:
    return Alert("title", ["first line", *(f"failure {number}: " + "x" * 200 for number in range(100))], Path("r"), {})


def test_webhook_gets_the_alert_as_data(sink: HttpSink) -> None:
    assert send(alert_webhook_url=f"{sink.url}/hook?key=1") == [True]
    [post] = sink.posts
    assert post.path == "/hook?key=1"
    assert post.headers["Content-Type"] == "application/json"
    assert post.headers["User-Agent"].startswith("harvester/")
    assert post.body == {
        "verdict": "failed",
        "spider": "bluesky",
        "crawl": "bluesky-1",
        "run": "20260101-000000-abcdef",
        "arguments": {},
        "finish_reason": "finished",
        "exit_code": 6,
        "command": "",
        "failures": [
            {"monitor": "Lost fields", "message": LOST},
            {"monitor": "Refusals", "message": REFUSED},
        ],
        "counts": {"post": 1234},
        "report": None,
    }


def failed(*names: str) -> Judgement:
    return Judgement("failed", [Judged(name, "failed", f"This is what {name} says.") for name in names])


def test_an_alert_says_arguments_exit_code_and_what_to_type_next() -> None:
    given = {"seeds": ["a.test", "b.test"], "depth": 2}
    alert = make_alert(RUN, JUDGEMENT, given, "scrapy crawl bluesky -a seeds=a.test,b.test -a depth=2")
    lines = alert.text().splitlines()
    for part in ("20260101-000000-abcdef", "bluesky-1", "'finished'", "exit code 6"):
        assert part in lines[1]
    assert lines[2].endswith(" seeds=a.test,b.test depth=2")
    assert lines[-2].endswith(" harvester runs show 20260101-000000-abcdef")
    assert lines[-1].endswith(" scrapy crawl bluesky -a seeds=a.test,b.test -a depth=2")
    assert alert.payload["arguments"] == given
    lost = make_alert({**RUN, "finish_reason": "frontier_lost"}, failed("Finish reason"), given, "scrapy crawl bluesky")
    assert "scrapy crawl" not in lost.text(), "the same command would not help"


@pytest.mark.parametrize(
    ("reason", "names", "told", "following"),
    [
        (
            "blocked",
            ("Finish reason", "Refusals", "Record count", "Error ratio"),
            ["Refusals"],
            "Error ratio, Record count",
        ),
        ("unreachable", ("Finish reason", "Error ratio"), ["Error ratio"], "Finish reason"),
        ("storage_error", ("Finish reason", "Record count"), ["Finish reason"], "Record count"),
        ("finished", ("Record count", "Lost fields", "Failed items"), ["Lost fields", "Failed items"], "Record count"),
        ("finished", ("Lost fields", "Reject ratio"), ["Lost fields", "Reject ratio"], ""),
    ],
)
def test_one_cause_is_told_once(reason: str, names: tuple[str, ...], told: list[str], following: str) -> None:
    alert = make_alert({**RUN, "finish_reason": reason}, failed(*names))
    assert [line.split(":")[0].removeprefix("• ") for line in alert.lines if line.endswith(" says.")] == told
    others = {name for name in names if name not in told}
    follow = [line for line in alert.lines if any(name in line for name in others)]
    assert len(follow) == bool(following)
    assert following in "".join(follow)
    assert len(alert.payload["failures"]) == len(names), "as data, all are there"


def test_slack_gets_a_text_with_its_signs_escaped(sink: HttpSink) -> None:
    assert send(alert_slack_webhook_url=f"{sink.url}/services/T/B/x") == [True]
    text = sink.posts[0].body["text"]
    assert "bluesky" in text
    assert "1,234 post" in text
    assert "post.like_count &amp; &lt;others&gt;" in text
    assert REFUSED in text


def test_discord_gets_a_text_that_mentions_nobody_and_is_not_too_long(sink: HttpSink) -> None:
    assert send(long_alert(), alert_discord_webhook_url=sink.url) == [True]
    body = sink.posts[0].body
    assert body["allowed_mentions"] == {"parse": []}
    assert len(body["content"]) <= 2000
    assert body["content"].splitlines()[2].startswith("failure 0: x")
    assert body["content"].endswith(" more)\nReport: r")


def test_telegram_gets_a_plain_text_at_the_configured_api(sink: HttpSink) -> None:
    settings: dict[str, Any] = {
        "alert_telegram_token": "12:ab",
        "alert_telegram_chat_id": "-7",
        "alert_telegram_api": sink.url,
    }
    assert send(**settings) == [True]
    assert send(long_alert(), **settings) == [True]
    first, second = sink.posts
    assert first.path == "/bot12:ab/sendMessage"
    assert first.body["chat_id"] == "-7"
    assert REFUSED in first.body["text"]
    assert "parse_mode" not in first.body
    assert len(second.body["text"]) <= 4096


def test_an_alert_that_fails_twice_arrives_at_the_third_try(sink: HttpSink) -> None:
    sink.statuses = [503, 429]
    assert send(alert_webhook_url=sink.url) == [True]
    assert len(sink.posts) == 3


@pytest.mark.parametrize(("statuses", "tries"), [([500] * 9, 3), ([404] * 9, 1), ([302] * 9, 1)])
def test_an_alert_that_cannot_be_sent_is_logged_without_its_address(
    statuses: list[int], tries: int, sink: HttpSink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.statuses = statuses
    assert send(alert_webhook_url=f"{sink.url}/sesame") == [False]
    assert len(sink.posts) == tries
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert f"HTTP {statuses[0]}" in record.getMessage()
    assert "sesame" not in caplog.text


def test_a_pause_that_is_no_number_is_not_heeded(sink: HttpSink) -> None:
    sink.statuses, sink.retry_after = [503], "²"
    assert send(alert_webhook_url=sink.url) == [True]
    assert len(sink.posts) == 2


def test_a_receiver_that_asks_for_a_long_pause_is_not_waited_for(sink: HttpSink) -> None:
    sink.statuses, sink.retry_after = [429, 429, 429], "3600"
    assert send(alert_webhook_url=sink.url) == [False]
    assert len(sink.posts) == 1
    sink.retry_after = "0"
    assert send(alert_webhook_url=sink.url) == [True]
    assert len(sink.posts) == 4


def test_an_address_that_is_none_is_logged_without_it(caplog: pytest.LogCaptureFixture) -> None:
    assert send(alert_webhook_url="http://sesame\u2025/") == [False]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "webhook" in caplog.text
    assert "sesame" not in caplog.text


@pytest.mark.parametrize("channel", ["", "SLACK_", "DISCORD_"])
@pytest.mark.parametrize(
    "address", ["sesame", "htp://sesame", "http://127.0.0.1:sesame/", "http://127.0.0.1/se same", "https:///sesame"]
)
def test_a_webhook_whose_address_is_none_is_refused_at_once_without_it(
    channel: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"HARVESTER_ALERT_{channel}WEBHOOK_URL", address)
    with pytest.raises(UsageError, match=f"HARVESTER_ALERT_{channel}WEBHOOK_URL") as refused:
        read_config()
    assert "sesame" not in str(refused.value)
    assert "se same" not in str(refused.value)


def test_a_webhook_that_is_set_to_nothing_is_none() -> None:
    assert send(alert_webhook_url="") == []


def test_channels_configured_by_half_are_named() -> None:
    assert incomplete_channels(Config()) == []
    assert "HARVESTER_ALERT_TELEGRAM_CHAT_ID" in incomplete_channels(Config(alert_telegram_token="x"))[0]
    assert "HARVESTER_SMTP_HOST" in incomplete_channels(Config(alert_email_to="me@test.example"))[0]


class Mailbox:
    """An SMTP server on loopback that offers STARTTLS with a certificate of its own, and knows one password."""

    def __init__(self, folder: Path, port: int) -> None:
        self.certificate = folder / "certificate.pem"
        _make_certificate(self.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self.received: list[tuple[str | None, list[str], EmailMessage]] = []
        self.logins: list[tuple[bytes, bytes]] = []
        self._controller = Controller(
            self, "127.0.0.1", port, tls_context=context, authenticator=self._login, auth_require_tls=False
        )
        self._controller.start()
        self.port = port

    def _login(self, server: Any, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"sesame", handled=False)

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.received.append((envelope.mail_from, envelope.rcpt_tos, message))
        return "250 OK"

    def close(self) -> None:
        self._controller.stop()


def _make_certificate(path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mailbox")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + certificate.public_bytes(encoding))


@pytest.fixture
def mailbox(tmp_path: Path, free_port: int) -> Iterator[Mailbox]:
    mailbox = Mailbox(tmp_path, free_port)
    yield mailbox
    mailbox.close()


def email_settings(mailbox: Mailbox, password: str = "sesame") -> dict[str, Any]:
    return {
        "alert_email_to": "a@test.example, b@test.example",
        "alert_email_from": "harvester@test.example",
        "smtp_host": "127.0.0.1",
        "smtp_port": mailbox.port,
        "smtp_user": "me",
        "smtp_password": password,
    }


def test_email_goes_through_tls_with_login_to_all_addresses_with_the_report(
    mailbox: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(mailbox.certificate))
    report = tmp_path / "report.html"
    report.write_text("<p>größer</p>", "utf-8")
    assert send(make_alert({**RUN, "report": str(report)}, JUDGEMENT), **email_settings(mailbox)) == [True]
    [(sender, recipients, message)] = mailbox.received
    assert (sender, recipients) == ("harvester@test.example", ["a@test.example", "b@test.example"])
    assert "bluesky" in message["Subject"]
    body = message.get_body(("plain",))
    assert body
    assert REFUSED in body.get_content()
    [attachment] = message.iter_attachments()
    assert attachment.get_filename() == "report.html"
    assert "größer" in attachment.get_content()
    assert mailbox.logins == [(b"me", b"sesame")]


def test_email_works_without_tls_and_login_when_told_so(mailbox: Mailbox) -> None:
    settings = email_settings(mailbox) | {"smtp_starttls": False, "smtp_user": None, "smtp_password": None}
    assert send(**settings) == [True]
    assert len(mailbox.received) == 1
    assert mailbox.logins == []


def test_the_password_is_not_told_to_a_mail_server_whose_certificate_is_unknown(
    mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    assert send(**email_settings(mailbox)) == [False]
    assert "e-mail" in caplog.text
    assert "certificate verify failed" in caplog.text
    assert mailbox.logins == []


def test_a_wrong_mail_password_is_tried_once_and_logged_without_it(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(mailbox.certificate))
    assert send(**email_settings(mailbox, password="wrongword")) == [False]
    assert "535" in caplog.text
    assert "wrongword" not in caplog.text
    assert {password for _, password in mailbox.logins} == {b"wrongword"}
    assert mailbox.received == []


def test_an_alert_can_be_tried_and_says_which_channel_failed(sink: HttpSink, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "NO_PROXY": "127.0.0.1",
        "HARVESTER_ALERT_WEBHOOK_URL": f"{sink.url}/hook",
        "HARVESTER_ALERT_DISCORD_WEBHOOK_URL": f"{sink.url}/discord",
    }

    def alert(*words: str, **variables: str) -> Ran:
        return run(HARVESTER, "alert", *words, cwd=tmp_path, env=environment | variables)

    def channels(**states: str) -> str:
        return "".join(f"{name}: {state}\n" for name, state in states.items())

    ran = alert()
    assert (ran.returncode, ran.stdout) == (0, channels(webhook="configured", Discord="configured"))
    assert not sink.posts
    ran = alert("--test")
    assert (ran.returncode, ran.stdout) == (0, channels(webhook="sent", Discord="sent")), ran.stderr
    assert [post.path for post in sink.posts] == ["/hook", "/discord"]
    assert sink.posts[0].body["verdict"] == "test"
    assert "test" in sink.posts[1].body["content"]
    sink.statuses = [404, 200]
    ran = alert("--test")
    assert (ran.returncode, ran.stdout) == (1, channels(webhook="not sent", Discord="sent"))
    assert "HTTP 404" in ran.stderr
    half = alert("--test", HARVESTER_SMTP_HOST="127.0.0.1")
    assert half.returncode == 1
    assert "e-mail" in half.stdout


def test_without_a_channel_there_is_nothing_to_try(tmp_path: Path) -> None:
    ran = run(HARVESTER, "alert", "--test", cwd=tmp_path, env=os.environ)
    assert ran.returncode == UsageError.exit_code
    assert "docs/settings.md" in ran.stderr
