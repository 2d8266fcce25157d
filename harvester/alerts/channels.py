"""The channels of alerts: webhook, Slack, Discord, Telegram and e-mail. Each is used when it is configured.

Spidermon's own actions are not used. Its Slack action needs a bot token and takes no webhook, its Telegram action fails
on `_` and `&` in a text, its e-mail action builds on a deprecated part of Scrapy, and its errors show the webhook's
address, which is a secret.
"""

import logging
import platform
import smtplib
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import SecretStr

from harvester.alerts.sending import TIMEOUT_SECONDS, post_json, send_with_retries
from harvester.config import Config

logger = logging.getLogger(__name__)

SLACK_CHARACTERS = 4000
DISCORD_CHARACTERS = 2000
TELEGRAM_CHARACTERS = 4096


class Alert(NamedTuple):
    """A message about a run or a site."""

    title: str
    lines: list[str]
    """The findings, one a line."""
    report: Path | None
    payload: dict[str, Any]
    """The findings as data, for the webhook."""

    def text(self, most: int | None = None) -> str:
        """Returns title and lines in at most `most` characters. Lines that do not fit are left out and counted."""
        ending = [f"Report: {self.report}"] if self.report else []
        lines = [self.title, *self.lines, *ending]
        if most is None or len("\n".join(lines)) <= most:
            return "\n".join(lines)
        kept, left = self.lines[:-1], 1
        while kept and len("\n".join([self.title, *kept, f"({left} more)", *ending])) > most:
            kept, left = kept[:-1], left + 1
        return "\n".join([self.title, *kept, f"({left} more)", *ending])[:most]


def send(config: Config, alert: Alert) -> bool:
    """Sends the alert through every configured channel. Errors are logged, never raised.

    Returns True if at least one channel accepted it.
    """
    channels = configured_channels(config, alert)
    if not channels:
        return False
    with ThreadPoolExecutor(len(channels)) as threads:
        return any(list(threads.map(lambda name: send_with_retries(name, channels[name]), channels)))


def configured_channels(config: Config, alert: Alert) -> dict[str, Callable[[], None]]:
    """Maps the name of each configured channel to a function that sends the alert once."""
    channels: dict[str, Callable[[], None]] = {}

    def add_post(name: str, url: SecretStr | None, body: dict[str, Any]) -> None:
        if url:
            channels[name] = lambda: post_json(url.get_secret_value(), body, config.user_agent)

    add_post("webhook", config.alert_webhook_url, alert.payload)
    add_post("Slack", config.alert_slack_webhook_url, {"text": _slack_text(alert)})
    discord = {"content": alert.text(DISCORD_CHARACTERS), "allowed_mentions": {"parse": []}}
    add_post("Discord", config.alert_discord_webhook_url, discord)
    if config.alert_telegram_token and config.alert_telegram_chat_id:
        token = config.alert_telegram_token.get_secret_value()
        url = SecretStr(f"{config.alert_telegram_api.rstrip('/')}/bot{token}/sendMessage")
        text = alert.text(TELEGRAM_CHARACTERS)
        add_post("Telegram", url, {"chat_id": config.alert_telegram_chat_id, "text": text})
    if config.alert_email_to and config.smtp_host:
        channels["e-mail"] = lambda: send_email(config, alert)
    return channels


def incomplete_channels(config: Config) -> list[str]:
    """Returns a sentence for each half-configured channel, so that the gap is noticed before an alert is needed."""
    sentences = []
    if bool(config.alert_telegram_token) != bool(config.alert_telegram_chat_id):
        sentences.append(
            "No alerts by Telegram: they need both HARVESTER_ALERT_TELEGRAM_TOKEN and HARVESTER_ALERT_TELEGRAM_CHAT_ID."
        )
    if bool(config.alert_email_to) != bool(config.smtp_host):
        sentences.append("No alerts by e-mail: they need both HARVESTER_ALERT_EMAIL_TO and HARVESTER_SMTP_HOST.")
    return sentences


def send_email(config: Config, alert: Alert) -> None:
    """Sends one e-mail to all addresses, with the report attached. Raises OSError; smtplib's errors are OSErrors."""
    assert config.alert_email_to
    assert config.smtp_host
    message = EmailMessage()
    message["Subject"] = alert.title
    message["From"] = config.alert_email_from or f"harvester@{platform.node()}"
    message["To"] = config.alert_email_to
    message.set_content(alert.text())
    if alert.report:
        message.add_attachment(alert.report.read_text("utf-8"), subtype="html", filename=alert.report.name)
    with smtplib.SMTP(config.smtp_host, config.smtp_port, timeout=TIMEOUT_SECONDS) as server:
        if config.smtp_starttls:
            server.starttls(context=ssl.create_default_context())
        if config.smtp_user and config.smtp_password:
            server.login(config.smtp_user, config.smtp_password.get_secret_value())
        server.send_message(message)


def _slack_text(alert: Alert) -> str:
    """Escapes `&`, `<` and `>`, which are Slack's own signs. The text is cut earlier, because escapes lengthen it."""
    text = alert.text(SLACK_CHARACTERS - 500)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
