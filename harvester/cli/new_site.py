"""The command `harvester sites new`: writes the entry of a county from the address of a page."""

import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from pydantic import ValidationError
from scrapy.http import TextResponse

from harvester.cli.configured import load_config
from harvester.cli.one_page import check_address, fetch, write
from harvester.exceptions import UsageError
from harvester.outcomes import Outcome
from harvester.parsers.counties.recognise import address_of_records, recognise
from harvester.platforms import Platform
from harvester.sites import Site, load_sites
from harvester.sites.problems import problems

ANY_PLATFORM = get_args(Platform)[0]
TABLES = ("arcgis", "socrata")
"""Platforms that answer in JSON."""
_is_id = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*").fullmatch
_kind = re.compile(r" (county|parish|city and borough|borough|census area|municipality|town)$").sub
_of_vendors = re.compile(
    r"(gis|hosting)\.vgsi\.com|(beacon|qpublic)\.schneidercorp\.com|propaccess\.trueautomation\.com"
    r"|(services\d*|utility|gis|tiles)\.arcgis\.com|webpro\.patriotproperties\.com|mapublicaccess\.tylerhost\.net"
).fullmatch
"""Hosts of vendors that serve many jurisdictions, so that the host names no single site."""


def write_entry(url: str, name: str, fips: str, site: str, into: Path | None) -> None:
    """Recognises the platform from the page at `url`. Raises UsageError, ServiceError, StorageError."""
    check_address(url)
    folder = into or load_config().sites_dir
    if folder is None:
        raise UsageError("new: where do your entries lie? Give a folder: --into FOLDER, or HARVESTER_SITES_DIR.")
    given = {"name": name, "fips": fips, "platform": ANY_PLATFORM, "base_url": url}  # checked before any request
    site = site or f"us-{_state(given)}-{_slug(name)}"
    _checked(site, {"property": given})
    file = folder / f"{site}.toml"
    _refuse_known(site, file)
    answer = fetch(address_of_records(url), Outcome.SESSION_EXPIRED)  # a disclaimer page is enough
    found = recognise(answer.url, answer.text if isinstance(answer, TextResponse) else "")
    if found is None:
        raise UsageError(
            f"new: {answer.url} is of no platform that harvester knows ({', '.join(get_args(Platform))}). Give the"
            " address of its search or of a parcel; for other software see docs/adding-a-site.md."
        )
    write(file, _entry(site, given | found._asdict()).encode())
    write(file.with_suffix(".json" if found.platform in TABLES else ".html"), answer.body)
    own = load_config().sites_dir
    if own is None or not folder.resolve().is_relative_to(own.resolve()):
        print(f"\nTo have it read: export HARVESTER_SITES_DIR={folder}")
    print(f"\n{name} is on {found.platform}. Nobody has checked it yet: harvester sites check {site} --parcel NUMBER")


def _state(given: Mapping[str, Any]) -> str:
    records = _checked("us", {"property": given}).property
    assert records
    return records.state.code.lower()


def _checked(site: str, table: Mapping[str, Any]) -> Site:
    try:
        return Site(name=site, **table)
    except ValidationError as error:
        said = (f"{place.rpartition('.')[2]}: {each}" for place, each in problems(error, Site, site).items())
        raise UsageError(f"new: {'; '.join(said)}.") from None


def _refuse_known(site: str, file: Path) -> None:
    if not _is_id(site):
        raise UsageError(f"new: {site!r} is no id: use small letters, digits and -, like us-oh-vinton.")
    if file.exists():
        raise UsageError(f"new: {file} is there already; nothing was written.")
    if any(known.name == site for known in load_sites()):
        raise UsageError(
            f"new: there is an entry of this id: harvester sites show {site}. Give another: --id {site}-2. To replace"
            " it copy it into a file of yours, and change what is wrong."
        )


def _slug(name: str) -> str:
    """Makes an id from a name: St. Louis County -> st-louis."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return "-".join(re.findall(r"[a-z0-9]+", re.sub(r"['’.]", "", _kind("", plain))))


def _entry(site: str, records: Mapping[str, Any]) -> str:
    """Returns the entry as TOML, in the order of docs/counties.md."""
    host = urlsplit(records["base_url"]).netloc.lower()
    is_shared = _of_vendors(host) or load_sites().of(records["base_url"]).property
    hosts = {} if is_shared else {"hosts": [host]}
    _checked(site, {**hosts, "property": records})
    lines = [f"[{site}]", f"hosts = {toml_of([host])}"] if hosts else []
    lines.append(f"[{site}.property]")
    return "\n".join([*lines, *(f"{key} = {toml_of(value)}" for key, value in records.items() if value)]) + "\n"


def toml_of(value: Any) -> str:
    """Returns a value as TOML in one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml_of(each)}' for key, each in value.items())} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML requires this escape
