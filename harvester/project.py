"""Finds the settings of the Scrapy project and its spiders by scrapy.cfg; without one, harvester's own."""

import logging
import os
from collections.abc import Mapping
from configparser import Error as BadConfiguration
from pathlib import Path
from traceback import extract_tb, walk_tb
from typing import TYPE_CHECKING

from harvester.exceptions import UsageError
from harvester.validation import did_you_mean

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings, Settings
    from scrapy.spiderloader import SpiderLoaderProtocol

SETTINGS_MODULE = "SCRAPY_SETTINGS_MODULE"
_NOT_OF_A_SPIDER = (
    "<frozen importlib",
    f"{os.sep}importlib{os.sep}",
    f"{os.sep}scrapy{os.sep}",
    f"{os.sep}harvester{os.sep}project.py",
    f"{os.sep}harvester{os.sep}commands{os.sep}",
)
"""Parts of file names that occur in every import of a spider."""


def spider_loader(overrides: Mapping[str, str] | None = None) -> "SpiderLoaderProtocol":
    """Returns the spider loader, with the settings of a crawl. Raises UsageError."""
    settings = project_settings()
    settings.setdict(dict(overrides or {}), "cmdline")
    return loader_of(settings)


def loader_of(settings: "BaseSettings") -> "SpiderLoaderProtocol":
    """Returns the spider loader. Raises UsageError when a setting or the module of a spider cannot be read."""
    from scrapy.spiderloader import get_spider_loader

    check_values(settings)
    try:
        return get_spider_loader(settings)
    except Exception as error:  # noqa: BLE001  whatever their modules raise
        if said := bad_value(error):
            raise UsageError(said) from None
        modules = ", ".join(settings.getlist("SPIDER_MODULES"))
        raise UsageError(f"The spiders of {modules} cannot be imported: {fault_of_import(error)}") from None


def fault_of_import(error: Exception) -> str:
    """Describes an import error in a spider's module, with the lines that led to it."""
    trace = [
        each for each in extract_tb(error.__traceback__) if not any(no in each.filename for no in _NOT_OF_A_SPIDER)
    ]
    places = "".join(f"\n  {each.filename}, line {each.lineno}: {each.line}" for each in trace)
    return f"{type(error).__name__}: {error}{places}"


def check_values(settings: "BaseSettings") -> None:
    """Raises UsageError that names each setting given as text (-s) that must be a number, a boolean or a level.

    Scrapy's default shows the expected type. A whole number may also be a fraction, since Scrapy reads some as such.
    """
    from scrapy.settings import default_settings

    faults = []
    for name, value in settings.items():
        default = getattr(default_settings, name, None)
        try:
            if not isinstance(value, str):
                pass
            elif name.endswith("LOG_LEVEL"):
                logging.Handler().setLevel(value)
            elif isinstance(default, bool):
                settings.getbool(name)
            elif isinstance(default, (int, float)):
                settings.getfloat(name)
        except ValueError:
            wanted = "DEBUG, INFO, WARNING, ERROR or CRITICAL" if name.endswith("LOG_LEVEL") else "a number"
            wanted = "True or False" if isinstance(default, bool) else wanted
            faults.append(f"-s {name}={value}: give {wanted}.")
    if faults:
        raise UsageError("\n".join(faults))


def bad_value(error: BaseException) -> str:
    """Describes an exception from setting or reading Scrapy's settings; empty for another exception."""
    from scrapy.settings import default_settings

    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_globals["__name__"] != "scrapy.settings":
            continue
        name, function = frame.f_locals.get("name"), frame.f_code.co_name
        if function == "set" and isinstance(getattr(default_settings, str(name), None), dict):
            value = frame.f_locals["value"]
            return (
                "" if isinstance(value, Mapping) else f"The setting {name} = {value!r} cannot be used: make it a dict."
            )
        if function.startswith("get"):
            return f"The setting {name}={frame.f_locals['self'][name]!r} cannot be used: {error}."
    return ""


def project_settings() -> "Settings":
    """Returns the settings of the project whose scrapy.cfg is in this folder or above it; else harvester's own.

    Add-ons have applied theirs. Raises UsageError when a settings module, or harvester's configuration, cannot be
    read.
    """
    from scrapy.addons import AddonManager
    from scrapy.settings import Settings

    _init_env()
    settings = Settings()
    module = os.environ.get(SETTINGS_MODULE, "harvester.settings")
    try:
        settings.setmodule(module)
    except Exception as error:  # noqa: BLE001  whatever the module raises
        said = bad_value(error) or f"The settings {module} cannot be read: {fault_of_import(error)}"
        raise UsageError(said) from None
    check_add_ons(settings)
    AddonManager.load_pre_crawler_settings(settings)
    return settings


def check_add_ons(settings: "BaseSettings") -> None:
    """Raises UsageError that names an add-on that cannot be imported."""
    from scrapy.utils.misc import load_object

    for addon, order in settings.getdict("ADDONS").items():
        try:
            if order is not None:
                load_object(addon)
        except Exception as error:  # noqa: BLE001  whatever its module raises
            meant = did_you_mean(str(addon), ["harvester.Addon"])
            said = f"ADDONS names {addon!r}, which cannot be imported{meant or ':'} {fault_of_import(error)}"
            raise UsageError(said) from None


def settings_file() -> "Path":
    """Returns the settings file of the project around this folder. Raises UsageError outside a project."""
    from importlib.util import find_spec

    from scrapy.utils.conf import closest_scrapy_cfg

    if not closest_scrapy_cfg():
        raise UsageError("There is no Scrapy project here: go to the folder of its scrapy.cfg, or below it.")
    _init_env()
    module = os.environ.get(SETTINGS_MODULE, "")
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None or found.origin is None:
        raise UsageError(f"scrapy.cfg names {module!r} as the settings, and there is no such module.")
    return Path(found.origin)


def brought_settings() -> "Settings":
    """Returns the settings of a project with the add-on. Raises UsageError without it, and when they cannot be read."""
    from harvester.addon import is_brought_into

    settings = project_settings()
    if not is_brought_into(settings):
        raise UsageError(
            f"harvester is not in this project: {settings_file()} has no harvester.Addon in ADDONS. Call `harvester"
            " project add`, which adds one line; `scrapy crawl` crawls without harvester."
        )
    return settings


def be_in_project() -> "tuple[Path, str, Mapping[str, str]]":
    """Selects the project of the closest scrapy.cfg, whatever the environment says.

    Returns its folder, the settings module, and the section `deploy`. Raises UsageError.
    """
    from scrapy.utils.conf import closest_scrapy_cfg, get_config

    os.environ.pop(SETTINGS_MODULE, None)
    try:
        settings_file()
        config = get_config()
        deploy = dict(config.items("deploy", raw=True)) if config.has_section("deploy") else {}
    except BadConfiguration as error:
        raise UsageError(f"{closest_scrapy_cfg()} cannot be read: {error}") from None
    return Path(closest_scrapy_cfg()).resolve().parent, os.environ[SETTINGS_MODULE], deploy


def _init_env() -> None:
    from scrapy.utils.conf import init_env

    if SETTINGS_MODULE not in os.environ:
        init_env(os.environ.get("SCRAPY_PROJECT", "default"))


def load_spider(name: str, overrides: Mapping[str, str] | None = None) -> "type[Spider]":
    """Returns the spider's class. Raises UsageError that names the known spiders."""
    loader = spider_loader(overrides)
    if name not in loader.list():
        raise UsageError(unknown_spider(name, loader))
    return loader.load(name)


def unknown_spider(name: str, loader: "SpiderLoaderProtocol") -> str:
    """Returns the message for an unknown spider."""
    known = sorted(loader.list())
    return f"There is no spider {name!r}; there are: {', '.join(known)}{did_you_mean(name, known) or '.'}"
