"""What follows from the acceptance of a disclaimer in a site's entry, and that nothing follows without it."""

import re
from typing import Any

import pytest

from harvester.sites import Site, load_sites
from harvester.sites.agreements import DELAY_S, root_of

RECORDS = {
    "name": "Ross",
    "fips": "39141",
    "platform": "iasworld",
    "base_url": "https://ross.example/PT/main/home.aspx",
}
ACCEPTED = RECORDS | {"disclaimer": "accepted by A. Person on 2026-01-31"}


def site(records: dict[str, Any], **tables: Any) -> Site:
    return Site(**{"name": "us-oh-ross", "hosts": ["ross.example"], "property": records, **tables})


def test_sessions_are_had_only_by_an_entry_that_says_who_has_accepted_the_disclaimer() -> None:
    assert site(RECORDS).identities.kind is None
    table = site(ACCEPTED).identities
    assert (table.kind, table.serial, table.count) == ("agree", True, 1)
    assert table.form
    assert table.form.page == "https://ross.example/PT/search/commonsearch.aspx?mode=parid"
    assert table.form.fields == {"btAgree": "Agree"}
    assert "identities" in site(ACCEPTED).model_fields_set  # else nobody looks whether there are any
    town = site(ACCEPTED | {"parameters": {"sjur": "MA014"}}).identities.form
    assert town
    assert town.page.endswith("?mode=parid&sjur=MA014")


def test_an_entry_says_otherwise_how_many_sessions_there_are_and_how_fast_they_ask() -> None:
    assert site(ACCEPTED, identities={"count": 3}).identities.count == 3
    assert site(ACCEPTED, identities={"count": 3}).identities.kind == "agree"
    own = {"kind": "anonymous", "count": 2}
    assert site(ACCEPTED, identities=own).identities.serial is False
    assert site(RECORDS).politeness.delay_s == DELAY_S["iasworld"]
    assert site(RECORDS, politeness={"concurrency": 1}).politeness.delay_s == DELAY_S["iasworld"]
    assert site(RECORDS, politeness={"requests_per_second": 0.2}).politeness.delay_s is None


def test_everybody_is_let_in_as_a_guest_but_agrees_to_no_statement_that_nobody_has_accepted() -> None:
    """A login page that says no more than that one is a guest is no statement."""
    guests = {"platform": "eagleweb", "base_url": "https://ross.example:8443/assessor/web/login.jsp"}
    table = site(RECORDS | guests).identities
    assert table.kind == "agree"
    assert table.form
    assert table.form.page == "https://ross.example:8443/assessor/web/login.jsp"
    assert table.form.fields == {"guest": "true", "submit": "Login"}
    for button in ("I Have Read The Above Statement", "I Agree", "Accept"):
        assert re.search(table.form.statement.text, f'<input type="submit" name="submit" value="{button}">')
    for button in ("Login", "Enter EagleWeb", "Enter TreasurerWeb", "Public Login", "Limited Viewer"):
        assert not re.search(table.form.statement.text, f'<input type="submit" name="submit" value="{button}">')
    accepted = site(ACCEPTED | guests).identities.form
    assert accepted
    assert not accepted.statement


def test_hosts_of_others_and_other_platforms_are_left_as_they_are() -> None:
    assert Site(name="us-ma-ayer", property=ACCEPTED).identities.kind is None
    assert site(ACCEPTED | {"platform": "devnet"}).identities.kind is None
    assert site(ACCEPTED | {"platform": "devnet"}).politeness.delay_s == 2
    assert site(ACCEPTED | {"platform": "esearch"}).politeness.delay_s == 1
    assert site(ACCEPTED | {"platform": "beacon"}).politeness.delay_s == 3
    assert site(ACCEPTED | {"platform": "arcgis"}).politeness.delay_s is None


def test_sites_that_remember_the_parcel_that_is_shown_have_one_session_for_one_parcel_at_a_time() -> None:
    table = site(RECORDS | {"platform": "patriot"}, identities={"count": 3}).identities
    assert (table.kind, table.serial, table.count) == ("anonymous", True, 3)
    assert site(RECORDS | {"platform": "patriot"}).politeness.delay_s == 2


def test_a_vendors_host_is_asked_as_its_platform_is() -> None:
    vendor = Site.model_validate({"name": "vendor", "hosts": ["many.example"], "platform": "pacs"})
    assert (vendor.identities.kind, vendor.identities.serial) == ("anonymous", True)
    assert vendor.politeness.delay_s == DELAY_S["pacs"]
    assert load_sites().of("https://propaccess.trueautomation.com/clientdb/").identities == vendor.identities


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("https://a.example", "https://a.example/"),
        ("https://a.example/PT/", "https://a.example/PT/"),
        ("https://a.example/_web/search/commonsearch.aspx?mode=owner", "https://a.example/_web/"),
        ("https://a.example/Main/Home.aspx", "https://a.example/"),
        ("https://search.example/mainland/", "https://search.example/mainland/"),
        ("https://a.example/treasurer/treasurerweb/search.jsp", "https://a.example/treasurer/"),
        ("https://a.example/Eaglesoftware/web/", "https://a.example/Eaglesoftware/"),
        ("https://a.example/web/", "https://a.example/web/"),
    ],
)
def test_any_page_of_a_site_says_where_its_software_lies(base_url: str, root: str) -> None:
    assert root_of(base_url) == root
