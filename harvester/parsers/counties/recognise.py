"""Recognises the platform of a page with property records by its address and by marks of the vendor in the page.

The marks are from saved pages and public code (docs/counties.md has the platforms).
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from harvester.parsers.counties.labels import PARCEL_ID, plain
from harvester.platforms import PARAMETERS, Platform


class Recognised(NamedTuple):
    """The facts about a page that a registry entry needs."""

    platform: Platform
    base_url: str
    parameters: dict[str, str | int]


_Mark = Callable[[str], re.Match[str] | None]


class _Rule(NamedTuple):
    """A platform whose pages are below one folder."""

    platform: Platform
    base: _Mark
    """Matches the base address in the path."""
    host: _Mark
    """Matches a host that runs only this software."""
    page: _Mark
    """Matches the text of a page, regardless of the host."""


def _search(pattern: str) -> _Mark:
    return re.compile(pattern, re.IGNORECASE).search


_NEVER = _search(r"(?!)")
_LAYER = _search(r"^https?://[^?#]+/rest/services/[^?#]+/(?:MapServer|FeatureServer)/\d+(?=/|\?|#|$)")
_DATASET = _search(r"^(https?://[^/?#]+)/(?:[^?#]*/)?([a-z0-9]{4}-[a-z0-9]{4})(?=[./?#]|$)")
_ROOT = _search(r"^/?")
_RULES = (
    _Rule(
        "vgsi", _search(r"^/[^/]+/?"), _search(r"^(gis|hosting)\.vgsi\.com$"), _search(r"Vision Government|vgs_icon")
    ),
    _Rule(
        "beacon",
        _search(r"^/Application\.aspx"),
        _search(r"^(beacon|qpublic)\.schneidercorp\.com$"),
        _NEVER,
    ),
    _Rule("devnet", _ROOT, _search(r"\.devnetwedge\.com$|^wedge\."), _search(r'id="parcel-search-property-key"')),
    _Rule(
        "patriot",
        _search(r"^/(?:(?![^/]*\.asp)[^/]+/)*"),
        _search(r"\.patriotproperties\.com$"),
        _search(r"patriotproperties\.com"),
    ),
    _Rule(
        "iasworld",
        _search(r"^/(?:(?!(?:search|datalets|main|maps|forms)/)[^/]+/)*"),
        _NEVER,
        _search(r"""content=['"]iasWorld['"]|iasWorld Public Access|Akanda Solutions|ParidControl\.js"""),
    ),
    _Rule(
        "pacs",
        _search(r"^/.*?(?:clientdb|PropertyAccess)/"),
        _search(r"\.trueautomation\.com$"),
        _search(r"propertySearchOptions[_$:]searchText"),
    ),
    _Rule("esearch", _ROOT, _NEVER, _search(r"""/search/requestSessionToken|name=["']search-token["']""")),
    _Rule(
        "eagleweb",
        _search(r"^/(?:eagle)?(?:assessor|treasurer|software)/"),
        _NEVER,
        _search(r"Enter (EagleWeb|TreasurerWeb)|loginPOST\.jsp"),
    ),
)


def address_of_records(url: str) -> str:
    """Returns the address to request for recognition: for layers and datasets the list of columns, else `url`."""
    if layer := _LAYER(url):
        return f"{layer[0]}?f=json"
    if dataset := _DATASET(url):
        return f"{dataset[1]}/resource/{dataset[2]}.json?$limit=1"
    return url


def recognise(url: str, page: str) -> Recognised | None:
    """Returns the platform of a page with its base address and parameters, or None.

    `url`: after redirects; `page`: the text.
    """
    if layer := _LAYER(url):
        columns = [str(field.get("name", "")) for field in _dicts(_read(page, "fields"))]
        return Recognised("arcgis", layer[0], _parcel_id(columns)) if columns else None
    if dataset := _DATASET(url):
        rows = _dicts(_read(page))
        base = f"{dataset[1]}/resource/{dataset[2]}.json"
        return Recognised("socrata", base, _parcel_id([name for row in rows for name in row])) if rows else None
    parts = urlsplit(url)
    for rule in _RULES:
        begun = rule.base(parts.path or "/")
        if begun and (rule.host(parts.hostname or "") or rule.page(page)):
            path = begun[0] if begun[0].endswith((".aspx", "/")) else f"{begun[0]}/"
            address = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
            return Recognised(rule.platform, address, _told(rule.platform, parts.query))
    return None


def _told(platform: Platform, query: str) -> dict[str, str | int]:
    """Returns the parameters in an address of the platform.

    Names are compared without regard to case, as the platform does.
    """
    given = {name.lower(): value for name, value in parse_qsl(query)}
    known = {name: given[name.lower()] for name in PARAMETERS[platform] if given.get(name.lower())}
    if "App" in known and "AppID" in known:
        del known["App"]
    numbered = ("cid", "AppID", "LayerID", "PageID")
    return {name: int(value) if name in numbered and value.isdecimal() else value for name, value in known.items()}


def _parcel_id(columns: list[str]) -> dict[str, str | int]:
    """Returns the column that most likely holds the parcel's number, as a registry parameter."""
    by_label = {plain(name): name for name in reversed(columns)}
    return next(({"parcel_id_field": by_label[label]} for label in PARCEL_ID if label in by_label), {})


def _read(page: str, member: str = "") -> object:
    try:
        value = json.loads(page)
    except (ValueError, RecursionError):
        return None
    return value.get(member) if member and isinstance(value, dict) else value


def _dicts(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
