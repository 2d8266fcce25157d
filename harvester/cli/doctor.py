"""Examines whether this machine has everything for a harvest, and how to fix the rest."""

import asyncio
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from packaging.requirements import Requirement
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError
from redis.exceptions import RedisError

from harvester.alerts.channels import Alert, configured_channels, incomplete_channels
from harvester.browser.chromium import find_chromium, installed
from harvester.config import Config, misspelt, variable_of
from harvester.exceptions import HarvesterError, ServiceError, UsageError
from harvester.formatting import counted
from harvester.identities.bluesky import account_of
from harvester.identities.credentials import credentials_of
from harvester.jobs.late import Late, find_late
from harvester.jobs.schedules import Schedule
from harvester.jobs.scheduling import Schedules
from harvester.jobs.service import job_service
from harvester.proxies.accounts import proxies_of, read_list
from harvester.publish.sinks import project_sinks
from harvester.sites import Site
from harvester.sites.proxy_spec import Tier
from harvester.sites.registry import own_files, read_sites, sites_of
from harvester.stores import servers
from harvester.stores.mongodb import said
from harvester.stores.objects import open_store
from harvester.stores.redis import connect, forgets, problem_of
from harvester.worker.retention import read_bounds

SERVER_TIMEOUT_SECONDS = 5
SITE_TIMEOUT_SECONDS = 15
LITTLE_ROOM_BYTES = 5 * 1000**3
NO_ROOM_BYTES = 500 * 1000**2
CLOCK_TOLERANCE_SECONDS = 30
"""Seconds that clocks may differ: a Date header has whole seconds, and a response takes time."""


class Level(StrEnum):
    """The weight of a finding. Only a failure keeps a harvest from working."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class DoctorFinding(NamedTuple):
    """A result of an examination, with a remedy."""

    level: Level
    subject: str
    text: str
    remedy: str = ""


def examine(config: Config, site: str) -> Iterator[DoctorFinding]:
    """Yields findings as they are made. `site` is an http(s) address that gets one request."""
    yield python()
    yield packages()
    yield settings(config)
    yield contact(config)
    yield from sites(config)
    yield alerts(config)
    if config.publish_file:
        yield publishing(config)
    finding, date_of_mongodb = mongodb(config)
    yield finding
    if finding.level is Level.OK and (late := schedules(config)):
        yield late
    yield redis(config)
    if config.postgres_uri:
        yield postgres(config, config.postgres_uri.get_secret_value())
    yield browser(config)
    yield from (folder(name, path) for name, path in (("data", config.data_dir), ("state", config.state_dir)))
    if config.images_store:
        yield images(config.images_store)
    yield logins(config)
    finding, date_of_site = reach(site, config.user_agent)
    yield finding
    yield clock(date_of_site, site) if date_of_site else clock(date_of_mongodb, "MongoDB")


def examine_without_settings(error: UsageError) -> Iterator[DoctorFinding]:
    """Yields the findings that are possible when the settings cannot be read."""
    yield python()
    yield packages()
    yield DoctorFinding(Level.FAIL, "Settings", str(error))


def python() -> DoctorFinding:
    """Reports the interpreter's version."""
    return DoctorFinding(Level.OK, "Python", f"{platform.python_version()} at {sys.executable}")


def packages() -> DoctorFinding:
    """Checks that all required distributions are installed in suitable versions."""
    required = [Requirement(line) for line in importlib.metadata.requires("harvester") or []]
    wanted = [one for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = [complaint for one in wanted if (complaint := _complaint_about(one))]
    if wrong:
        return DoctorFinding(Level.FAIL, "Packages", "; ".join(wrong), "make setup")
    return DoctorFinding(
        Level.OK, "Packages", f"harvester {importlib.metadata.version('harvester')}, {len(wanted)} required"
    )


def _complaint_about(requirement: Requirement) -> str:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is missing"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{requirement.name} is {version}, not {requirement.specifier}"


def settings(config: Config) -> DoctorFinding:
    """Checks that all variables that look like settings exist, and that settings read later are valid."""
    wrong = misspelt(config)
    try:
        read_bounds(config.retention)
    except UsageError as error:
        wrong.append(f"{error} Until then no old file is removed")
    if wrong:
        return DoctorFinding(Level.WARN, "Settings", "\n".join(wrong), "correct these variables, or unset them")
    return DoctorFinding(Level.OK, "Settings", "all names are known")


def contact(config: Config) -> DoctorFinding:
    """Checks that operators of sites can contact the user."""
    if config.contact:
        return DoctorFinding(Level.OK, "Contact", config.contact)
    remedy = "set HARVESTER_CONTACT to an e-mail address or a page of yours, as mailto:NAME@YOUR-DOMAIN"
    return DoctorFinding(Level.WARN, "Contact", "none: whoever runs the sites that are asked cannot reach you", remedy)


def sites(config: Config) -> Iterator[DoctorFinding]:
    """Checks that the entries of sites can be used, with their proxies, credentials and browser."""
    if config.proxies_file:
        try:
            yield DoctorFinding(Level.OK, "Proxies", f"{len(read_list(config.proxies_file))} in {config.proxies_file}")
        except HarvesterError as error:
            yield DoctorFinding(Level.FAIL, "Proxies", str(error))
    try:
        own = len(sites_of(own_files(config)))
        known = list(read_sites(config))
    except HarvesterError as error:
        yield DoctorFinding(Level.FAIL, "Sites", str(error))
        return
    lacking = [f"[{site.name}] {lack}" for site in known for lack in _lacks(site, config)]
    if lacking:
        yield DoctorFinding(Level.FAIL, "Sites", "\n".join(lacking))
    else:
        where = f"{own:,} of them in {config.sites_dir}" if config.sites_dir else "HARVESTER_SITES_DIR names no folder"
        yield DoctorFinding(Level.OK, "Sites", f"{counted(len(known), 'entry', 'entries')}; {where}")


def _lacks(site: Site, config: Config) -> Iterator[str]:
    """Yields the errors that a run on this site would end with."""
    wanted: list[Callable[[], object]] = []
    if vendor := site.proxy.vendor:
        wanted += [partial(proxies_of, config, vendor, tier) for tier in site.proxy.tiers if tier is not Tier.NONE]
    wanted += [
        partial(credentials_of, name, config, a_key=site.identities.kind == "key")
        for name in site.identities.credentials
    ]
    wanted += [partial(find_chromium, config)] if site.browser.render else []
    for want in wanted:
        try:
            want()
        except HarvesterError as error:
            yield str(error)


def alerts(config: Config) -> DoctorFinding:
    """Checks the channels of alerts without sending anything."""
    if missing := incomplete_channels(config):
        return DoctorFinding(Level.WARN, "Alerts", "\n".join(missing))
    names = list(configured_channels(config, Alert("", [], None, {})))
    if not names:
        return DoctorFinding(Level.OK, "Alerts", "no channel: nobody is told when a run goes wrong")
    return DoctorFinding(Level.OK, "Alerts", f"by {', '.join(names)}; `harvester alert --test` tries them")


def publishing(config: Config) -> DoctorFinding:
    """Checks the sinks as far as possible without sending them anything."""
    try:
        found = project_sinks(config)
    except UsageError as error:
        return DoctorFinding(Level.FAIL, "Publishing", str(error))
    names = ", ".join(found.by_name) if found else ""
    return DoctorFinding(Level.OK, "Publishing", f"to {names}; `harvester publish test SINK` tries one")


def mongodb(config: Config) -> tuple[DoctorFinding, datetime | None]:
    """Checks MongoDB and returns its time. A private server is started, and gives no time."""
    subject, milliseconds = "MongoDB", SERVER_TIMEOUT_SECONDS * 1000
    timeouts: dict[str, Any] = {"serverSelectionTimeoutMS": milliseconds, "connectTimeoutMS": milliseconds}
    try:
        with MongoClient[dict[str, Any]](servers.mongodb_uri(config), tz_aware=True, **timeouts) as client:
            version = client.server_info()["version"]
            client[config.database].list_collection_names()
            date = client.admin.command("hello")["localTime"]
    except ServiceError as error:
        return DoctorFinding(Level.FAIL, subject, str(error)), None
    except OperationFailure as error:
        reason = (error.details or {}).get("errmsg", error)
        remedy = f"check user, password and rights in {variable_of('mongodb_uri')}"
        return DoctorFinding(Level.FAIL, subject, f"refuses: {reason}", remedy), None
    except (PyMongoError, ValueError) as error:
        remedy = f"check {variable_of('mongodb_uri')} and that the server runs, or unset it"
        return DoctorFinding(Level.FAIL, subject, f"cannot be reached: {said(error)[:300]}", remedy), None
    if config.mongodb_uri:
        return DoctorFinding(Level.OK, subject, f"{version} (configured)"), date
    where = f"private, in {config.state_dir / 'mongodb'}; `harvester db` prints its address"
    return DoctorFinding(Level.OK, subject, f"{version} ({where})"), None


def schedules(config: Config) -> DoctorFinding | None:
    """Checks that a worker runs schedules and recurring jobs. Returns None without any."""
    subject = "Schedules"
    try:
        found, late = asyncio.run(_scheduled(config))
    except HarvesterError as error:
        return DoctorFinding(Level.FAIL, subject, str(error))
    if waiting := [f"{name}: {said}" for name, said in [*late.schedules.items(), *late.jobs.items()]]:
        return DoctorFinding(
            Level.WARN, subject, "\n".join(waiting), "start workers: `harvester worker`, or `harvester up`"
        )
    running = [each for each in found if not each.paused]
    if not running:
        return None
    next_at = min(each.next_at for each in running)
    said = f"{counted(len(running), 'schedule')}, the next at {next_at:%Y-%m-%d %H:%M:%S} UTC"
    return DoctorFinding(Level.OK, subject, said)


async def _scheduled(config: Config) -> tuple[list[Schedule], Late]:
    async with job_service(config) as service:
        found = await Schedules(service.ledger).all()
        return found, await find_late(service.ledger, found)


def postgres(config: Config, address: str) -> DoctorFinding:
    """Checks that PostgreSQL accepts records, and creates their schema."""
    try:
        from harvester.stores.postgres import Postgres

        with Postgres(address, config.postgres_schema, named=variable_of("postgres_uri")) as to:
            return DoctorFinding(Level.OK, "PostgreSQL", f"{to.place}, schema {to.schema}")
    except HarvesterError as error:
        return DoctorFinding(Level.FAIL, "PostgreSQL", str(error))


def redis(config: Config) -> DoctorFinding:
    """Checks that Redis answers. A private server is started."""
    whose = "configured" if config.redis_url else f"private, in {config.state_dir / 'valkey'}"
    try:
        info = asyncio.run(_info(config))
    except ServiceError as error:
        return DoctorFinding(Level.FAIL, "Redis", str(error))
    except UsageError as error:
        return DoctorFinding(Level.FAIL, "Redis", str(error), f"correct {variable_of('redis_url')}, or unset it")
    except (RedisError, OSError) as error:
        remedy = f"check {variable_of('redis_url')} and that the server runs, or unset it"
        return DoctorFinding(Level.FAIL, "Redis", f"cannot be used: {error or 'no answer in time'}", remedy)
    version = f"Valkey {info['valkey_version']}" if "valkey_version" in info else info["redis_version"]
    if problem := problem_of(info, config):
        said, _, remedy = problem.partition(": ")
        return DoctorFinding(Level.FAIL, "Redis", f"{version} ({whose}): {said}", remedy)
    if forgets(info):
        said = f"{version} ({whose}), which keeps no log: when it ends, what is to be fetched is lost"
        return DoctorFinding(Level.WARN, "Redis", said, "set `appendonly yes`")
    return DoctorFinding(Level.OK, "Redis", f"{version} ({whose})")


async def _info(config: Config) -> dict[str, Any]:
    client = connect(config)
    try:
        async with asyncio.timeout(SERVER_TIMEOUT_SECONDS):
            return dict(await client.info())
    finally:
        await client.aclose()


def browser(config: Config) -> DoctorFinding:
    """Checks that a Chromium is installed and starts."""
    for path in installed(config):
        try:
            answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if answer.returncode == 0:
            return DoctorFinding(Level.OK, "Chromium", f"{answer.stdout.strip()} at {path}")
    if config.chromium:
        said = f"{config.chromium} is no Chromium that runs"
        return DoctorFinding(Level.WARN, "Chromium", said, "correct HARVESTER_CHROMIUM, or unset it")
    install = "`apt-get install chromium-headless-shell`, or `playwright install chromium`"
    remedy = f"only pages that need a browser miss it: {install}"
    return DoctorFinding(Level.WARN, "Chromium", "not found", remedy)


def folder(name: str, path: Path, variable: str = "") -> DoctorFinding:
    """Checks that the folder, or its nearest existing parent, is writable and has free space."""
    subject = f"Folder for {name}"
    place = path.resolve()
    variable = variable or f"HARVESTER_{name.upper()}_DIR"
    try:
        while not place.exists():
            place = place.parent
        tempfile.TemporaryFile(dir=place).close()
        free = shutil.disk_usage(place).free
    except OSError as error:
        reason = error.strerror or str(error)
        return DoctorFinding(
            Level.FAIL, subject, f"{path}: {reason}", f"make {place} a writable folder, or set {variable}"
        )
    text = f"{path}, {free / 1000**3:.1f} GB free"
    if free < LITTLE_ROOM_BYTES:
        level = Level.FAIL if free < NO_ROOM_BYTES else Level.WARN
        return DoctorFinding(level, subject, text, f"make room, or set {variable} to another disk")
    return DoctorFinding(Level.OK, subject, text)


def images(location: str) -> DoctorFinding:
    """Checks that pictures can be stored at this location. An S3 bucket gets no request."""
    if "://" not in location:
        return folder("images", Path(location), "HARVESTER_IMAGES_STORE")
    try:
        open_store(location)
    except HarvesterError as error:
        return DoctorFinding(Level.FAIL, "Folder for images", str(error))
    return DoctorFinding(Level.OK, "Folder for images", location)


def logins(config: Config) -> DoctorFinding:
    """Checks that the login settings are complete, and that other users cannot read saved sessions."""
    try:
        account_of(config)
    except HarvesterError as error:
        return DoctorFinding(Level.FAIL, "Logins", str(error))
    if os.name != "posix":
        return DoctorFinding(Level.OK, "Logins", "closed by the folder's access list")
    kept = sorted((config.state_dir / "sessions").glob("*.json"))
    open_to_others = [path for path in kept if path.stat().st_mode & 0o077]
    if open_to_others:
        names = " ".join(map(str, open_to_others))
        return DoctorFinding(Level.FAIL, "Logins", f"{names} can be read by others", f"chmod 600 {names}")
    return DoctorFinding(Level.OK, "Logins", f"{len(kept)} kept, readable by you alone" if kept else "none kept")


def reach(site: str, user_agent: str) -> tuple[DoctorFinding, datetime | None]:
    """Checks that the site responds, and returns its time."""
    try:
        with urlopen(Request(site, headers={"User-Agent": user_agent}), timeout=SITE_TIMEOUT_SECONDS) as response:
            status, headers = response.status, response.headers
    except HTTPError as error:
        status, headers = error.code, error.headers
        error.close()
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        remedy = "is this machine online, and is there a proxy (HTTPS_PROXY)? `--site URL` asks another one"
        return DoctorFinding(Level.WARN, "Site", f"{site} cannot be reached: {reason}", remedy), None
    date = _parsed(headers["Date"])
    if status >= 400:
        remedy = "look at it in a browser: it may be down, or refuse this network"
        return DoctorFinding(Level.WARN, "Site", f"{site} answers with status {status}", remedy), date
    return DoctorFinding(Level.OK, "Site", f"{site} answers"), date


def _parsed(header: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(header) if header else None
    except (ValueError, OverflowError):
        return None


def clock(date: datetime | None, whose: str) -> DoctorFinding:
    """Checks that this machine's clock agrees with a server's."""
    if date is None:
        return DoctorFinding(Level.OK, "Clock", "unknown: there was no answer to compare it with")
    ahead = time.time() - date.replace(tzinfo=date.tzinfo or UTC).timestamp()
    if abs(ahead) > CLOCK_TOLERANCE_SECONDS:
        text = f"{abs(ahead):.0f} seconds {'ahead of' if ahead > 0 else 'behind'} {whose}"
        return DoctorFinding(Level.WARN, "Clock", text, "set it: `timedatectl set-ntp true`, or the system's settings")
    return DoctorFinding(Level.OK, "Clock", f"agrees with {whose}")
