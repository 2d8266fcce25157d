"""Where Chromium is, and how it is started."""

import os
import shutil
from importlib.util import find_spec
from typing import Any

from harvester.config import Config
from harvester.exceptions import UsageError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Binaries looked for on PATH."""
_ARGUMENTS = ("--disable-dev-shm-usage", "--disable-gpu", "--mute-audio", "--no-first-run")


def find_chromium(config: Config) -> str | None:
    """The binary to start; None for the one that Playwright fetched. Raises UsageError that says what to install."""
    if find_spec("playwright") is None or find_spec("scrapy_playwright") is None:
        raise UsageError("Rendering pages needs the extra `browser`: uv pip install 'harvester[browser]'.")
    if config.chromium:
        path = shutil.which(config.chromium)
        if path is None:
            raise UsageError(f"HARVESTER_CHROMIUM: {config.chromium} is no program that can be started.")
        return path
    for name in NAMES:
        if path := shutil.which(name):
            return path
    if fetched_by_playwright():
        return None
    raise UsageError(
        "Rendering pages needs Chromium, and none is here. Install it (apt-get install chromium, or"
        " playwright install chromium), or name one in HARVESTER_CHROMIUM."
    )


def fetched_by_playwright() -> bool:
    """Whether `playwright install chromium` was run."""
    import harvester.doctor as doctor

    return bool(doctor._playwright_browsers())


def launch_options(binary: str | None) -> dict[str, Any]:
    """Of Playwright's `launch`. Its own handlers of signals would end pages that are under way."""
    arguments = [*_ARGUMENTS]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium refuses to start as root otherwise
    options: dict[str, Any] = {"args": arguments, "handle_sigint": False, "handle_sigterm": False}
    options["handle_sighup"] = False
    return options | ({"executable_path": binary} if binary else {})
