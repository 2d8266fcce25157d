"""The defaults of platforms: the pace, and the sessions that begin with an agreement or as a guest."""

import re
from collections.abc import Mapping
from typing import Any

WEB_FORMS = ("iasworld",)
"""Platforms on ASP.NET WebForms that show a disclaimer first, and whose searches need a session."""
REMEMBERING = ("pacs", "patriot")
"""Platforms whose sites store the search in a session, and give every visitor one."""
GUESTS = ("eagleweb",)
"""Platforms with a button for guests on their login page."""
DELAY_S = {"beacon": 3.0, "devnet": 2.0, "eagleweb": 3.0, "esearch": 1.0, "iasworld": 1.0, "pacs": 3.0, "patriot": 2.0}
"""Platform -> seconds between two requests to its sites, if the entry sets no pace. The servers of counties are
small."""
LOGINS_PER_HOUR = 60
"""Logins an hour: sessions of such a site end after minutes, and one click starts the next."""
_SEARCH = "search/commonsearch.aspx?mode=parid"
_AT_DISCLAIMER = r"(?i)^[^?]*/disclaimer\.aspx"
_ANYWHERE_ELSE = r"(?i)^(?![^?]*/disclaimer\.aspx)"
_AT_LOGIN = r"(?i)^[^?]*/login\.jsp"
_NOT_AT_LOGIN = r"(?i)^(?![^?]*/login\.jsp)"
_STATEMENT = r"""(?i)<(input|button)[^<>]*\b(have read|agree|accept)\b"""
"""A button that makes a guest agree to more than being a guest."""
_below_root = re.compile(
    r"/(search|main|datalets|forms|(tax|treasurer)web|((?<=assessor/)|(?<=treasurer/)|(?<=software/))web)(/.*)?$",
    re.IGNORECASE,
)


def root_of(base_url: str) -> str:
    """Returns the address of a site's software from any copied page, such as `https://county.example/PT/`."""
    address = base_url.partition("#")[0].partition("?")[0]
    return f"{_below_root.sub('', address).rstrip('/')}/"


def with_agreement(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entry with the defaults of its platform: sessions and pace, where the entry sets none.

    Sessions that need a disclaimer are added only if a person has accepted that.
    """
    records = entry.get("property", {})
    if not isinstance(records, Mapping):
        return dict(entry)
    platform = records.get("platform") or entry.get("platform")
    if not isinstance(platform, str) or platform not in DELAY_S or not entry.get("hosts"):
        return dict(entry)
    politeness, identities = entry.get("politeness", {}), entry.get("identities", {})
    found = dict(entry)
    if isinstance(politeness, Mapping) and not {"requests_per_second", "delay_s", "window_s"} & politeness.keys():
        found["politeness"] = {**politeness, "delay_s": DELAY_S[platform]}
    if isinstance(identities, Mapping) and "kind" not in identities:
        if platform in REMEMBERING:
            found["identities"] = {"kind": "anonymous", "serial": True, **identities}
        elif platform in GUESTS:
            found["identities"] = {**_guests(records), **identities}
        elif platform in WEB_FORMS and records.get("disclaimer"):
            found["identities"] = {**_identities(records), **identities}
    return found


def _guests(records: Mapping[str, Any]) -> dict[str, Any]:
    form = {
        "page": f"{root_of(str(records.get('base_url', '')))}web/login.jsp",
        "css": "form:has(input[name=guest]), #middle_left form",
        "fields": {"guest": "true", "submit": "Login"},
        "success": {"url": _NOT_AT_LOGIN},
    }
    if not records.get("disclaimer"):
        form["statement"] = {"text": _STATEMENT}
    return {"kind": "agree", "logins_per_hour": LOGINS_PER_HOUR, "expired_url": _AT_LOGIN, "form": form}


def _identities(records: Mapping[str, Any]) -> dict[str, Any]:
    parameters = records.get("parameters")
    town = parameters.get("sjur") if isinstance(parameters, Mapping) else None
    of_town = f"&sjur={town}" if town else ""
    return {
        "kind": "agree",
        "serial": True,
        "logins_per_hour": LOGINS_PER_HOUR,
        "expired_url": _AT_DISCLAIMER,
        "form": {
            "page": f"{root_of(str(records.get('base_url', '')))}{_SEARCH}{of_town}",
            "fields": {"btAgree": "Agree"},
            "success": {"url": _ANYWHERE_ELSE, "text": "__VIEWSTATE"},
        },
    }
