"""The command `harvester alert`."""

import platform
from typing import Annotated

import typer

from harvester.cli.configured import load_config
from harvester.exceptions import UsageError

TITLE = "harvester: this is a test"


def alert_command(
    test: Annotated[bool, typer.Option("--test", help="Send one that says it is a test.")] = False,
) -> None:
    """Say by which channels alerts go out; with --test, send one. Exit code 1: one could not be sent."""
    from harvester.alerts.channels import Alert, configured_channels, incomplete_channels
    from harvester.alerts.sending import send_with_retries

    config = load_config()
    lines = [f"`harvester alert --test` was called on {platform.node()}. No run failed."]
    payload = {"verdict": "test", "host": platform.node(), "failures": []}
    channels = configured_channels(config, Alert(TITLE, lines, None, payload))
    missing = incomplete_channels(config)
    for sentence in missing:
        print(sentence)
    if not channels:
        raise UsageError("No channel is configured: docs/settings.md lists the variables HARVESTER_ALERT_...")
    sent = {name: send_with_retries(name, send) if test else True for name, send in channels.items()}
    for name, arrived in sent.items():
        print(f"{name}: {('sent' if test else 'configured') if arrived else 'not sent'}")
    raise typer.Exit(0 if all(sent.values()) and not missing else 1)
