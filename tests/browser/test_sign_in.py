"""An identity that signs in by a browser asks as who it is, and a wrong password is told."""

from pathlib import Path

from tests.browser.crawl import Plan, Wish, crawl
from tests.browser.site import JavaScriptSite


async def test_an_identity_signs_in_once_by_a_browser_and_its_requests_are_let_in(tmp_path: Path) -> None:
    async with JavaScriptSite() as site:
        sites = with_site(tmp_path, site)
        plan = Plan(
            [
                Wish(f"{site.url}/door/plain"),
                Wish(f"{site.url}/door/rendered", {"render": True, "rendering": {"steps": [{"wait_for": "#in"}]}}),
            ]
        )
        done = await crawl(plan, tmp_path, sites_dir=sites, session_county_user="ann", session_county_password=RIGHT)
    assert [each.outcome for each in done.results] == ["ok", "ok"], done.log[-3000:]
    assert all("welcome back" in each.text for each in done.results)
    assert "<title>ann</title>" in done.of(f"{site.url}/door/rendered").text, "local storage came with it"
    assert site.asked["/login"] == 1
    assert RIGHT not in done.log


async def test_a_wrong_password_stops_the_identity_at_once(tmp_path: Path) -> None:
    async with JavaScriptSite() as site:
        sites = with_site(tmp_path, site)
        plan = Plan([Wish(f"{site.url}/door/{number}") for number in range(5)])
        done = await crawl(plan, tmp_path, sites_dir=sites, session_county_user="ann", session_county_password="no")
    assert site.asked["/login"] == 1
    assert "ok" not in {each.outcome for each in done.results}
    assert "refuses the login of COUNTY" in done.log


RIGHT = "open sesame"


def with_site(folder: Path, site: JavaScriptSite) -> str:
    """The folder of an entry for the site."""
    sites = folder / "sites"
    sites.mkdir()
    (sites / "county.toml").write_text(
        f"""[county]
hosts = ["{site.url.removeprefix("http://")}"]
[county.identities]
kind = "browser"
credentials = "COUNTY"
[county.identities.browser]
steps = [
    {{open = "{site.url}/door"}},
    {{fill = "#user", value = "{{user}}"}},
    {{fill = "#word", value = "{{password}}"}},
    {{click = "#go"}},
    {{wait_for = "#in, #no", optional = true, timeout_s = 60}},
]
success = {{cookie = "key"}}
"""
    )
    return str(sites)
