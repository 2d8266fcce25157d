"""An identity that signs in by a browser asks as who it is, and a wrong password is told."""

import re
from pathlib import Path

from tests.browser.crawl import Plan, Wish, crawl, end, start
from tests.browser.killing import until
from tests.browser.site import JavaScriptSite


async def test_an_identity_signs_in_once_and_what_pages_make_of_its_session_is_kept_for_the_next_run(
    tmp_path: Path,
) -> None:
    door = {"render": True, "rendering": {"steps": [{"wait_for": "#in"}]}}
    async with JavaScriptSite() as site:
        county = {"session_county_user": "ann", "session_county_password": RIGHT}
        county["sites_dir"] = with_site(tmp_path, site)
        wishes = [Wish(f"{site.url}/door/plain"), Wish(f"{site.url}/door/rendered", door)]
        rendering = {"steps": [{"wait_for": "#told"}]}
        pages = [Wish(f"{site.url}/renewing/{number}", {"render": True, "rendering": rendering}) for number in range(4)]
        wishes += [*pages[:2], Wish(f"{site.url}/cookies/1")]
        patches = {"harvester.browser.browser.SAVE_S": 0.0}
        first = await crawl(Plan(wishes, patches=patches, one_by_one=True), tmp_path, **county)
        again = await crawl(Plan([Wish(f"{site.url}/cookies/2"), *pages[2:]], one_by_one=True), tmp_path, **county)
    assert [each.outcome for each in [*first.results, *again.results]] == ["ok"] * 8, first.log[-3000:]
    assert all("welcome back" in first.of(f"{site.url}/door/{kind}").text for kind in ("plain", "rendered"))
    assert "<title>ann</title>" in first.of(f"{site.url}/door/rendered").text, "local storage came with it"
    tokens = [page.text.partition('<p id="told">')[2].partition("</p>")[0] for page in first.results + again.results]
    assert [token for token in tokens if token] == ["t2", "t3", "t4", "t5"]
    assert "rolling=r3" in first.of(f"{site.url}/cookies/1").text, "plain requests carry the cookies of pages"
    assert "rolling=r3" in again.of(f"{site.url}/cookies/2").text
    assert site.asked["/login"] == 1
    assert again.stats["harvester/identities/resumed/county"] == 1
    assert RIGHT not in first.log + again.log


async def test_a_wrong_password_stops_the_identity_at_once(tmp_path: Path) -> None:
    async with JavaScriptSite() as site:
        sites = with_site(tmp_path, site)
        plan = Plan([Wish(f"{site.url}/door/{number}") for number in range(5)])
        done = await crawl(plan, tmp_path, sites_dir=sites, session_county_user="ann", session_county_password="no")
    assert site.asked["/login"] == 1
    assert "ok" not in {each.outcome for each in done.results}
    assert re.search("(WARNING|ERROR): .*COUNTY", done.log)


async def test_nothing_secret_is_typed_on_a_page_of_another_site(tmp_path: Path) -> None:
    async with JavaScriptSite() as site, JavaScriptSite() as other:
        site.elsewhere = f"{other.url}/door"
        sites = with_site(tmp_path, site, door="leads-away")
        steps = [{"fill": "#word", "secret": "smtp_password", "optional": True}, {"click": "#go"}]
        away = site.url.replace("127.0.0.1", "localhost") + "/leads-away"
        wishes = [Wish(away, {"render": True, "rendering": {"steps": steps}}), Wish(f"{site.url}/list/1")]
        county = {"session_county_user": "ann", "session_county_password": RIGHT, "sites_dir": sites}
        process = await start(Plan(wishes, one_by_one=True), tmp_path, smtp_password=RIGHT, **county)
        await until(lambda: "of COUNTY at county" in (tmp_path / "log").read_text() or process.returncode is not None)
        process.terminate()
        done = await end(process, tmp_path)
    assert other.asked["/door"] >= 2
    assert other.asked["/login"] == 0
    host = other.url.removeprefix("http://")
    assert re.search(rf"of COUNTY at county .*{host}", done.log), done.log[-3000:]
    [typed] = [each for each in done.results if "localhost" in each.url]
    assert (typed.outcome, host in typed.said) == ("policy_denied", True)
    assert RIGHT not in done.log


RIGHT = "open sesame"


def with_site(folder: Path, site: JavaScriptSite, door: str = "door") -> str:
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
    {{open = "{site.url}/{door}"}},
    {{fill = "#user", value = "{{user}}"}},
    {{fill = "#word", value = "{{password}}"}},
    {{click = "#go"}},
    {{wait_for = "#in, #no", optional = true, timeout_s = 60}},
]
success = {{cookie = "key"}}
"""
    )
    return str(sites)
