"""What sites say of training and text mining is on the records of a real crawl, which begins with their sitemaps."""

import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.crawling import LONGEST_S
from tests.forking import fork
from tests.politeness.robots.site import Reply, WebSite
from tests.root import ROOT

HTML = "text/html; charset=utf-8"
NO_AI = Reply(body=b'<html><head><meta name="robots" content="noai"></head>', kind=HTML)
TDMREP = Reply(body=b'[{"location":"/reserved/*","tdm-reservation":1}]', kind="application/json")
ROBOTS = (
    "User-agent: *\nContent-Signal: ai-train=no\nDisallow: /forbidden\nDisallow: /robots\n\n"
    "User-agent: GPTBot\nDisallow: /\n\n"
)
QUIET = ["/plain", "/header", "/free", "/meta", "/leads", "/left-out"]
ASKED = ["/plain", "/reserved/a", "/reserved/free", "/b.jpg", "/forbidden"]
SKIPPED = ["/plain", "/reserved/a", "/header", "/meta"]
LONG = "a line that is no address\n" * 50_000
"""It makes a sitemap larger than other answers may be."""
LISTED = "/sitemaps/all.xml.gz"


def sitemap(site: WebSite, *paths: str) -> bytes:
    return "".join(["<urlset>", *(f"<url><loc>{site.url}{path}</loc></url>" for path in paths), "</urlset>"]).encode()


class Ran:
    """One crawl of three sites: one of which nothing is known, one whose files are read, one whose word is obeyed."""

    def __init__(self) -> None:
        pages = {
            "/header": [Reply(headers={"Content-Usage": "train-ai=n"})],
            "/free": [Reply(headers={"TDM-Reservation": "0"})],
            "/leads": [Reply(headers={"X-Robots-Tag": "otherbot: noindex\nmax-snippet:-1, noai"})],
            "/meta": [NO_AI],
            "/reserved/free": [Reply(headers={"tdm-reservation": "0"})],
        }
        files = {
            "/.well-known/tdmrep.json": [TDMREP],
            "/ai.txt": [Reply(body=b"User-Agent: *\nDisallow: *.jpg\n")],
        }
        self.quiet, self.asked = WebSite(pages | files), WebSite(pages | files)
        missing = {"/ai.txt": [Reply(body=b"<p>Not here</p>", kind=HTML)]}
        self.skipped = WebSite({**pages, **files, **missing})

    async def run(self, folder: Path) -> None:
        async with self.quiet as quiet, self.asked as asked, self.skipped as skipped:
            quiet.replies["/sitemap.xml"] = [Reply(body=sitemap(quiet, *QUIET), kind="text/xml")]
            robots = f"{ROBOTS}Sitemap: {asked.url}/sitemaps/index.xml\n"
            robots += "Sitemap: http://[::1/sitemap.xml\nSitemap: /sitemaps/second.txt\n"
            robots += f"Sitemap: {asked.url.removeprefix('http:')}/sitemaps/third.txt\n"
            asked.replies["/sitemaps/third.txt"] = [Reply(body=f"{asked.url}/left-out".encode(), kind="text/plain")]
            asked.replies["/sitemaps/second.txt"] = [
                Reply(
                    body=f"{LONG}http://[::1/page\n{asked.url}:99999/\n{asked.url}/second".encode(), kind="text/plain"
                )
            ]
            asked.replies["/robots.txt"] = [Reply(body=robots.encode())]
            index = f"<sitemapindex><sitemap><loc>{asked.url}{LISTED}</loc></sitemap></sitemapindex>".encode()
            asked.replies["/sitemaps/index.xml"] = [Reply(body=index, kind="text/xml")]
            listed = sitemap(asked, *ASKED).replace(
                b"</urlset>", b"<url><loc>http://other.example/</loc></url></urlset>"
            )
            asked.replies[LISTED] = [Reply(body=gzip.compress(listed), kind="application/gzip")]
            skipped.replies["/sitemap.xml"] = [
                Reply(body="\n".join(skipped.url + path for path in SKIPPED).encode(), kind="text/plain")
            ]
            self._register(folder)
            own = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
            own["HARVESTER_ALLOW_PRIVATE_HOSTS"] = "true"
            environment = own | {
                "PYTHONPATH": str(ROOT),
                "SCRAPY_SETTINGS_MODULE": "harvester.settings",
                "HARVESTER_REQUESTS_PER_SECOND": "0",
                "HARVESTER_MAX_RESPONSE_MB": "1",
                "HARVESTER_SITES_DIR": str(folder),
            }
            process = await fork(
                "tests.politeness.usage.crawl", quiet.url, asked.url, skipped.url, cwd=folder, env=environment
            )
            out, log = await process.end(LONGEST_S)
            assert process.returncode == 0, log
            told, self.stats = json.loads(out)
            self.log = log
            self.told: dict[str, dict[str, Any]] = {}
            for name, site in (("quiet", quiet), ("asked", asked), ("skipped", skipped)):
                self.told[name] = {
                    url.removeprefix(site.url): said for url, said in told.items() if url.startswith(f"{site.url}/")
                }

    def _register(self, folder: Path) -> None:
        entries = [
            f'[asked]\nhosts = ["{self.asked.name}"]\n[asked.politeness]\nread_opt_outs = true\n',
            f'[skipped]\nhosts = ["{self.skipped.name}"]\n[skipped.politeness]\nhonour_opt_outs = "skip"\n',
        ]
        (folder / "sites.toml").write_text("".join(entries), "utf-8")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    ran = Ran()
    asyncio.run(ran.run(tmp_path_factory.mktemp("usage")))
    return ran


def test_the_words_of_a_page_are_on_its_records(ran: Ran) -> None:
    assert ran.told["quiet"] == {
        "/plain": None,
        "/header": {"training": "refused", "signals": ["Content-Usage: train-ai=n"]},
        "/free": {"training": "allowed", "mining": "allowed", "signals": ["header tdm-reservation=0"]},
        "/meta": {"training": "refused", "signals": ["meta robots: noai"]},
        "/leads": {"training": "refused", "signals": ["X-Robots-Tag: noai"]},
        "/leads-on": None,
    }, ran.log


def test_files_of_a_site_are_read_only_when_that_is_asked_for_and_once(ran: Ran) -> None:
    paths = ("/.well-known/tdmrep.json", "/ai.txt")
    assert [len(ran.quiet.asked(path)) for path in paths] == [0, 0]
    assert [len(ran.asked.asked(path)) for path in paths] == [1, 1]
    assert [len(ran.skipped.asked(path)) for path in paths] == [1, 1]


def test_the_words_of_a_site_are_on_the_records_of_its_pages(ran: Ran) -> None:
    robots = ["robots.txt Content-Signal: ai-train=no", "robots.txt GPTBot: Disallow: /"]
    reserved = "tdmrep.json /reserved/* tdm-reservation=1"
    said = ran.told["asked"]
    assert "/forbidden: Disallow: /forbidden" in said.pop("/forbidden")
    assert {path: (usage["training"], usage.get("mining")) for path, usage in said.items()} == {
        "/plain": ("refused", None),
        "/reserved/a": ("refused", "refused"),
        "/reserved/free": ("refused", "allowed"),
        "/b.jpg": ("refused", None),
        "/second": ("refused", None),
    }
    assert said["/plain"]["signals"] == robots
    assert said["/reserved/a"]["signals"] == [*robots, reserved]
    assert said["/reserved/free"]["signals"] == ["header tdm-reservation=0", *robots, reserved]
    assert said["/b.jpg"]["signals"] == [*robots, "ai.txt Disallow: *.jpg"]


def test_what_a_site_opts_out_of_is_not_collected_where_its_entry_says_so(ran: Ran) -> None:
    said = ran.told["skipped"]
    assert said["/plain"] is None
    for path, word in (("/reserved/a", "tdmrep.json"), ("/header", "Content-Usage: train-ai=n"), ("/meta", "noai")):
        assert said[path].startswith(f"policy_denied: {ran.skipped.name} opts out: ")
        assert word in said[path]
    assert ran.skipped.asked("/reserved/a") == []
    assert ran.stats["harvester/usage/skipped"] == 3
    assert ran.stats["harvester/outcomes/policy_denied"] == 3 + 1


def test_a_crawl_begins_with_the_sitemaps_that_robots_txt_names_and_stays_at_the_site(ran: Ran) -> None:
    assert ran.asked.asked("/sitemap.xml") == []
    assert len(ran.asked.asked(LISTED)) == 1
    assert ran.quiet.asked("/left-out") == []
    assert ran.stats["harvester/sitemaps/read"] == 6
    assert ran.stats["harvester/sitemaps/listed"] == len(QUIET) + len(ASKED) + len(SKIPPED) + 2
    assert ran.stats["harvester/sitemaps/elsewhere"] == 2
