"""Entries of the county in the registry of sites."""

import tomllib
from pathlib import Path

from harvester.sites import Site
from tests.identities.county import County

FORM = """
[county.identities]
kind = "form"
credentials = {names}
at_once = 64
expired_url = "/Login\\\\.aspx"
logins_per_hour = 20
{more}
[county.identities.form]
page = "{url}/Login.aspx"
css = "#main"
fields = {{ "ctl00$user" = "{{user}}", "ctl00$pass" = "{{password}}", "ctl00$go" = "Log in" }}
success = {{ cookie = "auth" }}
"""
TOKEN = """
[county.identities]
kind = "token"
credentials = "COUNTY"
at_once = 64
{more}
[county.identities.token]
url = "{url}/token"
body = {{ name = "{{user}}", word = "{{password}}" }}
token = "data.access"
expires_in = "data.life"
refresh = {{ url = "{url}/refresh", body = {{ refresh = "{{refresh_token}}" }}, refresh_token = "data.refresh" }}
"""
AGREE = """
[county.identities]
kind = "agree"
count = {count}
serial = true
expired_url = "/Disclaimer\\\\.aspx"
{more}
[county.identities.form]
page = "{url}/Disclaimer.aspx"
css = "#main"
fields = {{ btAgree = "Agree" }}
success = {{ cookie = "ASP.NET_SessionId" }}
"""
NOWHERE = """
[county.identities]
kind = "browser"
credentials = "COUNTY"
{more}
[county.identities.browser]
steps = [{{ open = "http://a..invalid/" }}, {{ click = "#go" }}]
success = {{ cookie = "auth" }}
"""
"""At its address no server can be."""
ANN = {"session_county_user": "ann", "session_county_password": "correct-horse-1"}
BOB = {"session_bob_user": "bob", "session_bob_password": "correct-horse-2"}


def read(county: County, entry: str, more: str = "", **values: object) -> Site:
    """The county's entry, in this process."""
    text = entry.format(url=county.url, more=more, names='["COUNTY"]', **values)
    return Site(name="county", hosts=(county.name,), **tomllib.loads(text)["county"])


def enter(county: County, folder: Path, entry: str, more: str = "", **values: object) -> dict[str, str]:
    """Writes the county's entry; the variables of a crawl that reads it."""
    names = values.pop("names", '["COUNTY"]')
    text = entry.format(url=county.url, more=more, names=names, **values)
    (folder / "sites" / "county.toml").write_text(f'[county]\nhosts = ["{county.name}"]\n{text}')
    return {
        "sites_dir": str(folder / "sites"),
        "state_dir": str(folder / "state"),
        "requests_per_second": "0",
        "concurrent_per_host": "64",
        "allow_private_hosts": "true",
    }
