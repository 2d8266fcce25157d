"""Finds Chromium, and sets its launch options."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harvester.config import Config
from harvester.exceptions import UsageError

HEADLESS = ("/usr/lib/chromium/chromium-headless-shell", "chrome-headless-shell")
"""Chromium without windows: the same pages for far less processor time and memory. Debian's is named by its path,
because on PATH it has a script: a signal would end the script and leave the browser."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""Other binaries, searched on PATH."""
HEADED = "HARVESTER_HEADED"
"""A setting of a crawl: True gives its browser windows, for a person to watch. Default False."""
_ARGUMENTS = ("--disable-dev-shm-usage", "--disable-gpu", "--mute-audio", "--no-first-run")
_FETCHED_HEADLESS = (
    "chromium_headless_shell-*/chrome-*/chrome-headless-shell",
    "chromium_headless_shell-*/chrome-*/*.exe",
)
_FETCHED = ("chromium-*/chrome-*/chrome", "chromium-*/chrome-*/chrome.exe", "chromium-*/*/*.app/Contents/MacOS/*")


def installed(config: Config, *, headed: bool = False) -> Iterator[str]:
    """Yields the binaries of Chromium, the best first: the configured one, the system's, those fetched by Playwright.

    With `headed`, only binaries that have windows.
    """
    if config.chromium:
        yield from filter(None, [shutil.which(config.chromium)])
        return
    yield from filter(None, map(shutil.which, NAMES if headed else (*HEADLESS, *NAMES)))
    places = [Path.home() / ".cache", Path.home() / "Library/Caches", Path(os.environ.get("LOCALAPPDATA", "~"))]
    folders = [place / "ms-playwright" for place in places]
    if chosen := os.environ.get("PLAYWRIGHT_BROWSERS_PATH"):
        folders = [Path(chosen)]
    for folder in folders:
        for pattern in _FETCHED if headed else (*_FETCHED_HEADLESS, *_FETCHED):
            yield from map(str, sorted(folder.glob(pattern)))


def find_chromium(config: Config, *, headed: bool = False) -> str:
    """Returns the binary to start. Raises UsageError that names what to install."""
    if find_spec("playwright") is None or find_spec("scrapy_playwright") is None:
        raise UsageError("Rendering pages needs the extra `browser`: uv pip install 'harvester[browser]'.")
    if path := next(installed(config, headed=headed), None):
        return path
    if config.chromium:
        raise UsageError(f"HARVESTER_CHROMIUM: {config.chromium} is no program that can be started.")
    if headed:
        raise UsageError("Windows need a Chromium that has some, and none is here: apt-get install chromium.")
    raise UsageError(
        "Rendering pages needs Chromium, and none is here. Install it (apt-get install"
        " chromium-headless-shell, or playwright install chromium), or name one in HARVESTER_CHROMIUM."
    )


def launch_options(binary: str, *, headed: bool = False) -> dict[str, Any]:
    """Returns the options for Playwright's `launch`. Its signal handlers are off, because they would end pages under
    way."""
    arguments = [*_ARGUMENTS]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium refuses to start as root otherwise
    signals = dict.fromkeys(("handle_sigint", "handle_sigterm", "handle_sighup"), False)
    return {"executable_path": binary, "args": arguments, "headless": not headed, **signals}
