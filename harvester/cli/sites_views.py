"""Finds sites of the registry, and prints them at a terminal."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harvester.cli.printing import new_console, new_table, print_json, shown
from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.project import spider_loader
from harvester.sites import Site, load_sites
from harvester.sites.politeness import Politeness
from harvester.sites.property import PropertyRecords
from harvester.sites.registry import own_files, packaged_files
from harvester.sites.states import STATES
from harvester.validation import did_you_mean

STATE_CODES = [state.code for state in STATES.values()]
_words = re.compile(r"\w+").findall


def site_named(name: str) -> Site:
    """Returns the site with this name. Raises UsageError for an unknown name."""
    known = {site.name: site for site in load_sites()}
    if name not in known:
        raise UsageError(
            f"There is no site {name!r}{did_you_mean(name, known) or '; `harvester sites find` looks for one.'}"
        )
    return known[name]


def is_of(site: Site, state: str, platform: str) -> bool:
    """Returns True if the site is in this state and on this platform. Empty values match all."""
    if records := site.property:
        return state in ("", records.state.code) and platform in ("", records.platform)
    return not (state or platform)


def fits(site: Site, wanted: Iterable[str]) -> bool:
    """Returns True if each wanted word begins a word of the site."""
    records = site.property
    said = [site.name, *((records.name, records.fips, *records.state) if records else site.hosts)]
    known = words_of(" ".join(said))
    return all(any(word.startswith(begun) for word in known) for begun in wanted)


def words_of(text: str) -> list[str]:
    """Splits into lowercase words without apostrophes and dots, which users omit: `st louis`, `prince georges`."""
    return _words(re.sub(r"['’.]", "", text).lower())


def print_sites(sites: Sequence[Site], as_json: bool) -> None:
    """Prints one line for each site."""
    if as_json:
        print_json([_in_json(site) for site in sites])
        return
    console = new_console()
    if not sites:
        console.print("None.")
        return
    table = new_table("id")
    for name in ("platform", "checked", "name"):
        table.add_column(name, overflow="fold")
    for site in sites:
        if records := site.property:
            table.add_row(site.name, records.platform, str(records.checked or "never"), shown(records.name))
        else:
            table.add_row(site.name, "", "", ", ".join(site.hosts))
    console.print(table)


def _in_json(site: Site) -> dict[str, Any]:
    row: dict[str, Any] = {"id": site.name, "hosts": site.hosts}
    if records := site.property:
        row["state"] = records.state.code
        row |= records.model_dump(mode="json", include={"name", "fips", "platform", "base_url", "checked"})
    return row


def print_site(site: Site, config: Config, as_json: bool) -> None:
    """Prints everything about a site."""
    command = _command(site.property, site.name)
    file = _file_of(site.name, config)
    if as_json:
        entry = site.model_dump(mode="json", exclude_unset=True, exclude={"name"})
        print_json({"id": site.name, **entry, "file": file, "command": command})
        return
    console = new_console()
    records = site.property
    console.print(f"{site.name}: {shown(records.name)}, {records.state.name}" if records else site.name)
    for what, said in _facts(site, config, file):
        console.print(f"  {what:12}  {shown(said, len(said))}")
    if records and command:
        more = f"`harvester spiders show {records.platform}` says what else may be asked for."
        console.print(f"\nTo harvest it: {command}\n{more}")
    elif records:
        console.print(f"\nNo spider of this project reads {records.platform}.")


def _facts(site: Site, config: Config, file: str) -> Iterator[tuple[str, str]]:
    asked = site
    if records := site.property:
        asked = load_sites().of(records.base_url)
        yield from _facts_of_records(records)
    yield "hosts", ", ".join(site.hosts) or f"none of its own: {asked.name} may serve others, too"
    of_another = "" if asked == site else f"of {asked.name}: "
    yield "politeness", f"{of_another}{_pace(asked.politeness, config)}"
    if others := sorted(site.model_fields_set - {"name", "hosts", "politeness", "property"}):
        yield "says more of", ", ".join(others)
    yield "file", file


def _facts_of_records(records: PropertyRecords) -> Iterator[tuple[str, str]]:
    yield "FIPS", records.fips
    yield "platform", records.platform
    yield "address", records.base_url
    if records.parameters:
        yield "parameters", ", ".join(f"{name}={value}" for name, value in records.parameters.items())
    yield "checked", f"on {records.checked}" if records.checked else "never checked"
    if records.check:
        yield "known parcel", str(records.check["parcel"])
    yield "consent", records.disclaimer or "not given: nobody has agreed to the site's terms"
    if records.bulk_download:
        yield "bulk", records.bulk_download
    if records.notes:
        yield "notes", records.notes


def _pace(politeness: Politeness, config: Config) -> str:
    limits = politeness.limits(config)
    at_once = f"{limits.concurrency} at a time"
    pace = f"a request every {limits.interval_s:g} s" if limits.interval_s else "no limit of its rate"
    window = f", {limits.window_requests:,} in {limits.window_s:g} s" if limits.window_requests else ""
    robots = "is obeyed" if politeness.obey_robots else f"is not obeyed: {politeness.robots_reason}"
    return f"{pace}{window}, {at_once}; robots.txt {robots}"


def _file_of(name: str, config: Config) -> str:
    """Returns the file with the entry. The user's own entries take precedence over packaged ones."""
    files = (file for file in (*own_files(config), *packaged_files()) if name in file.text)
    return str(next(file.path for file in files if name in file.sites))


def _command(records: PropertyRecords | None, name: str) -> str | None:
    """Returns the command that harvests a jurisdiction; None when no spider reads its platform."""
    if records is None or records.platform not in spider_loader().list():
        return None
    return f"harvester crawl {records.platform} -a site={name} -a parcels=@FILE"
