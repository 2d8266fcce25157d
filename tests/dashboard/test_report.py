"""The picture of a harvest, from a made-up harvest in a real MongoDB."""

import re
import signal
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from pydantic import SecretStr
from pymongo import MongoClient
from pymongo.database import Database
from typer.testing import CliRunner

import harvester.items.property  # noqa: F401  its records are shown
from harvester.browser.chromium import find_chromium, launch_options
from harvester.cli.app import app
from harvester.config import Config
from harvester.dashboard.figures import gather
from harvester.dashboard.report import template, thumbnail, write_report
from harvester.exceptions import ServiceError, StorageError, UsageError
from harvester.jobs.documents import ItemState, to_document
from harvester.stores.mongodb import DEFAULTS
from tests.crash.mongod import Mongod
from tests.dashboard.harvest import JOB, did, fill, item

Mongo = Database[dict[str, Any]]


class _Tags(HTMLParser):
    """Tags with their attributes; checks that what is opened is closed."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_is_one_file_that_loads_nothing_and_runs_nothing_but_its_own(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=40, posts=200)
    path = write_report(config)
    page = path.read_text("utf-8")
    tags = _Tags(page)
    assert tags.open == []
    for tag, attributes in tags.found:
        assert tag not in ("link", "iframe", "object", "embed", "form", "base")
        assert not [name for name in attributes if name.startswith("on")]
        if tag in ("img", "image"):
            source = attributes.get("src") or attributes.get("href") or ""
            assert source.startswith("data:image/jpeg;base64,")
        if tag == "a":
            assert (attributes["href"] or "").startswith("https://bsky.app/profile/did:plc:")
    assert "url(" not in page.replace("url(#round)", "")
    assert "@import" not in page
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    assert [attributes for tag, attributes in tags.found if tag == "script"] == [{}]
    (policy,) = [attributes["content"] for tag, attributes in tags.found if "http-equiv" in attributes]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policy
    assert dict(rule.split() for rule in policy.split("; ")) == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",
        "script-src": f"'sha256-{digest}'",
    }


def test_the_counts_are_exact_also_after_mongodb_was_killed(tmp_path: Path, free_port: int) -> None:
    """What MongoDB knows of a collection's size without counting is that of its last checkpoint."""
    with Mongod(tmp_path, free_port) as server:
        with MongoClient[dict[str, Any]](server.uri, journal=True) as client:
            client["test"]["posts"].insert_many([{"_id": number} for number in range(500)])
        server.end(signal.SIGKILL)
        server.start()
        with MongoClient[dict[str, Any]](server.uri) as client:
            assert gather(client["test"]).counts["posts"] == 500


def test_text_from_the_network_is_escaped(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=20, posts=30)
    page = write_report(config).read_text("utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; 0" in page
    assert "the &lt;gulls&gt; slept &amp; nobody" in page


def test_figures_are_those_of_the_harvest(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=60, posts=400)
    figures = gather(mongodb)
    assert figures.counts["profiles"] == 60
    assert figures.counts["follows"] == mongodb["follows"].count_documents({})
    assert figures.pictures == 45
    assert figures.items == {"account": {"done": 59, "failed": 1}}
    followers = {
        person.did: mongodb["follows"].count_documents({"subject_did": person.did}) for person in figures.people
    }
    assert [person.followers for person in figures.people] == sorted(followers.values(), reverse=True)
    assert {person.did: person.followers for person in figures.people} == followers
    by_position = {(figures.people[one].did, figures.people[other].did) for one, other in figures.follows}
    drawn = list(followers)
    edges = mongodb["follows"].find({"did": {"$in": drawn}, "subject_did": {"$in": drawn}})
    assert by_position == {(edge["did"], edge["subject_did"]) for edge in edges}
    assert len(by_position) > 300
    assert sum(figures.days.values()) == 400
    assert [thread.posts for thread in figures.threads] == sorted((3 + n * n for n in range(3, 15)), reverse=True)
    assert figures.threads[0].text.startswith("Post 14: ")


def test_tags_languages_and_sites_count_once_a_post_however_they_are_written(mongodb: Mongo) -> None:
    tag, link = {"kind": "tag"}, {"kind": "link"}
    mongodb["posts"].insert_many(
        [
            {
                "_id": 1,
                "tags": ["Art"],
                "facets": [
                    tag | {"value": "ART"},
                    tag | {"value": "rain"},
                    link | {"value": "https://www.One.example/a"},
                ],
                "langs": ["en", "en-GB"],
                "embed": {"external": {"url": "https://one.example/b"}},
            },
            {"_id": 2, "facets": [tag | {"value": "art"}, link | {"value": "no address"}], "langs": ["pt-BR"]},
            {
                "_id": 3,
                "facets": [link | {"value": "http://awww.example/x"}, {"kind": "mention", "value": "did:plc:x"}],
            },
            {"_id": 4},
        ]
    )
    figures = gather(mongodb)
    assert figures.hashtags == [("art", 2), ("rain", 1)]
    assert figures.languages == [("en", 1), ("pt", 1)]
    assert figures.domains == [("awww.example", 1), ("one.example", 1)]


def test_a_county_has_charts_of_its_sales_values_and_uses(config: Config, mongodb: Mongo) -> None:
    worth = [0, 49_999, 50_000, 1_000_000, 7_000_000]
    mongodb["assessments"].insert_many([{"market_value": Decimal128(str(each))} for each in worth])
    mongodb["assessments"].insert_many([{"total_value": 60_000}, {}])
    mongodb["sales"].insert_many([{"sale_date": day} for day in ("1999-04-05", "2024-01-01", "2024-12-31")] + [{}])
    mongodb["properties"].insert_many([{"use_code": "510", "use_description": "Dwelling"}, {"use_code": "100"}, {}])
    mongodb["tax_bills"].insert_many([{"media_paths": {"bill": "us-oh-x/tax_bills/2025/1.pdf"}}, {}])
    figures = gather(mongodb)
    assert (figures.pdfs, figures.pictures) == (1, 0)
    assert {label: count for label, count in figures.worth if count} == {
        "0 to 50,000": 1,
        "50,000 to 100,000": 2,
        "1,000,000 and more": 2,
    }
    assert sorted(figures.uses) == [("100", 1), ("Dwelling", 1)]
    page = write_report(config).read_text("utf-8")
    _Tags(page)
    assert "<title>2024-01-01: 2</title>" in page
    assert "<dt>PDFs</dt><dd>1</dd>" in page


def test_one_job_can_be_shown_alone(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=20, posts=30)
    mongodb["profiles"].insert_one({"_id": did(900), "did": did(900), "provenance": {"crawl": "another"}})
    mongodb["job_items"].insert_one(to_document(item("another", 900, ItemState.WAITING)))
    mongodb["posts"].insert_one({"_id": "x", "tags": ["elsewhere"], "provenance": {"crawl": "another"}})
    assert gather(mongodb).counts["profiles"] == 21
    assert ("elsewhere", 1) in gather(mongodb).hashtags
    assert gather(mongodb).items == {"account": {"waiting": 1, "done": 20}}
    alone = gather(mongodb, JOB)
    assert alone.counts["profiles"] == 20
    assert alone.items == {"account": {"done": 20}}
    assert ("elsewhere", 1) not in alone.hashtags
    page = write_report(config, JOB).read_text("utf-8")
    assert f"<h1>{JOB}</h1>" in page
    assert re.search(r"\b20 done\b", page)
    assert re.findall(r"01 November 2026, 00:\d\d UTC", page)[:2] == [
        f"01 November 2026, 00:{at} UTC" for at in ("00", "42")
    ]


def test_accounts_that_are_followed_and_were_not_collected_are_not_in_the_picture(mongodb: Mongo) -> None:
    mongodb["follows"].insert_many(
        [
            {"_id": f"{did(n)} {did(other)}", "did": did(n), "subject_did": did(other)}
            for n in range(9)
            for other in (50, 1)
        ]
    )
    assert [person.did for person in gather(mongodb).people] == [did(1), did(50)], "no profile at all: all are shown"
    mongodb["profiles"].insert_one({"_id": did(1), "handle": "one.example"})
    assert [person.name for person in gather(mongodb).people] == ["one.example"]


def test_a_part_of_a_harvest_has_a_report_too(config: Config, mongodb: Mongo) -> None:
    mongodb["follows"].insert_one({"_id": f"{did(1)} {did(2)}", "did": did(1), "subject_did": did(2)})
    page = write_report(config).read_text("utf-8")
    graph, plot = '<svg class="graph"', '<div class="plot">'
    assert (graph in page, plot in page) == (True, False)
    mongodb["follows"].drop()
    mongodb["posts"].insert_one({"_id": "at://did:plc:x/app.bsky.feed.post/1", "did": "did:plc:x"})
    assert graph not in write_report(config).read_text("utf-8")


def test_absurd_dates_are_said(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=20, posts=500)
    page = " ".join(write_report(config).read_text("utf-8").split())
    assert re.search(r"\b2 posts\b[^<]*\b1999-01-01\b[^<]*\b2099-01-01\b", page)


def test_nothing_to_show_is_a_sentence(config: Config, mongodb: Mongo) -> None:
    with pytest.raises(UsageError, match=mongodb.name):
        write_report(config)
    fill(mongodb, Path(config.images_location), accounts=5, posts=5)
    with pytest.raises(UsageError, match="nonsense"):
        write_report(config, "nonsense")


def test_a_place_that_cannot_be_written_is_a_sentence(config: Config, mongodb: Mongo, tmp_path: Path) -> None:
    fill(mongodb, Path(config.images_location), accounts=5, posts=5)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"report\.html.*(Not a directory|File exists)"):
        write_report(config, out=tmp_path / "file" / "report.html")


def test_a_database_that_cannot_be_asked_is_a_sentence(
    config: Config, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEFAULTS, "serverSelectionTimeoutMS", 100)
    uri = SecretStr(f"mongodb://ann:secret@127.0.0.1:{free_port}/")
    with pytest.raises(ServiceError, match=r"MongoDB.*Connection refused") as caught:
        write_report(config.model_copy(update={"mongodb_uri": uri}))
    assert "secret" not in str(caught.value)


def test_the_command_writes_where_it_is_told(
    config: Config, mongodb: Mongo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(mongodb, Path(config.images_location), accounts=5, posts=5)
    assert config.mongodb_uri
    monkeypatch.setenv("HARVESTER_MONGODB_URI", config.mongodb_uri.get_secret_value())
    out = tmp_path / "deep" / "picture.html"
    ended = CliRunner().invoke(app, ["report", "--database", mongodb.name, "--job", JOB, "--out", str(out)])
    assert (ended.exit_code, ended.stdout) == (0, f"{out}\n")
    assert JOB in out.read_text("utf-8")
    ended = CliRunner().invoke(app, ["report", "--database", "a b"])
    assert isinstance(ended.exception, UsageError)


def test_pictures_are_small_and_come_only_from_the_images_folder(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    Image.effect_noise((1000, 1000), 80).convert("RGB").save(images / "a.jpg")
    Image.new("RGB", (50, 50)).save(tmp_path / "outside.jpg")
    (images / "broken.jpg").write_bytes((images / "a.jpg").read_bytes()[:3000])
    (images / "text.jpg").write_text("<svg onload=alert(1)>")
    found = thumbnail(images, "a.jpg")
    assert re.fullmatch(r"data:image/jpeg;base64,[A-Za-z0-9+/=]+", found)
    assert len(found) < 8000
    for picture in ("", "missing.jpg", "../outside.jpg", str(tmp_path / "outside.jpg"), "broken.jpg", "text.jpg", "."):
        assert thumbnail(images, picture) == ""


def test_the_template_is_compiled_once(config: Config, mongodb: Mongo) -> None:
    fill(mongodb, Path(config.images_location), accounts=5, posts=5)
    write_report(config)
    before = template.cache_info().misses
    write_report(config)
    assert template.cache_info().misses == before


def test_top_posts_are_those_that_are_liked_and_passed_on_most(mongodb: Mongo) -> None:
    def post(name: str, likes: int, reposts: int = 0, quotes: int = 0, replies: int = 0) -> dict[str, Any]:
        counts = {"like_count": likes, "repost_count": reposts, "quote_count": quotes, "reply_count": replies}
        return {"_id": name, "did": did(1), "handle": "a.example", "text": f"<{name}>", **counts}

    mongodb["posts"].insert_many([post("liked", 9), post("passed on", 5, 5, 2, 7), post("nothing", 0, replies=99)])
    mongodb["posts"].insert_one({"_id": "no counts", "did": did(2)})
    top = gather(mongodb).posts
    assert [(each.uri, each.likes, each.reposts, each.replies) for each in top] == [
        ("passed on", 5, 7, 7),
        ("liked", 9, 0, 0),
    ]
    assert top[0].text == "<passed on>"


@pytest.fixture
def page() -> Iterator[Page]:
    """Of the real Chromium; what it complains of, by its own rules too, fails the test."""
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(**launch_options(find_chromium(Config()))) as browser,
    ):
        made = browser.new_page()
        faults: list[str] = []
        made.on("pageerror", lambda error: faults.append(str(error)))
        made.on("console", lambda message: faults.append(message.text))
        yield made
        assert faults == []


CUT = """
() => [...document.querySelectorAll('.count, dd')].filter(each => {
  const box = each.getBoundingClientRect(), row = each.closest('li, table, div').getBoundingClientRect();
  return each.scrollWidth > Math.ceil(box.width) || box.right > row.right + 1;
}).map(each => each.textContent)
"""
"""Counts of which a part cannot be seen."""


def test_counts_are_never_cut_and_tables_can_be_sorted(config: Config, mongodb: Mongo, page: Page) -> None:
    fill(mongodb, Path(config.images_location), accounts=40, posts=300)
    long = "x" * 80
    facets = [{"kind": "tag", "value": long}, {"kind": "link", "value": f"https://{long}.example/"}]
    new = [{"_id": f"{number}", "did": did(1), "facets": facets} for number in range(1234)]
    mongodb["posts"].insert_many(new)
    mongodb["profiles"].update_one({"_id": did(0)}, {"$set": {"display_name": long, "followers_count": 12_345_678}})
    mongodb["profiles"].update_one({"_id": did(5)}, {"$set": {"followers_count": 900}})
    liked = {"like_count": 1_234_567, "repost_count": 3}
    mongodb["posts"].update_one({"_id": {"$regex": "^at:"}}, {"$set": liked})
    page.goto(write_report(config).as_uri())
    for width in (1200, 800, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.get_by_text("1,234", exact=True).first.is_visible()
    accounts = page.locator("table.sortable").first

    def column(number: int) -> list[str]:
        return [text.strip() for text in accounts.locator(f"tbody td:nth-child({number})").all_inner_texts()]

    here = [int(text) for text in column(2)]
    assert here == sorted(here, reverse=True)
    page.get_by_role("button", name="Followers", exact=True).click()
    assert column(3)[:3] == ["12,345,678", "900", ""]
    page.get_by_role("button", name="Followers here").click()
    page.get_by_role("button", name="Followers here").click()
    assert [int(text) for text in column(2)] == sorted(here)
    page.get_by_role("button", name="Account").press("Enter")
    names = [name.split("\n")[0] for name in column(1)]
    assert names[0].startswith(("佐", "<", "A"))
    assert names != column(1)[::-1]
    assert accounts.locator("th[aria-sort]").all_inner_texts() == ["Account"]
    assert page.get_by_role("cell", name="1,234,567").is_visible()


def test_the_graph_of_ten_thousand_accounts_shows_groups_and_is_no_star(config: Config, mongodb: Mongo) -> None:
    """Five circles of 2,000 accounts, and one that follows all: most of what is followed is followed by it."""
    circles, size, hub = 5, 2000, did(10_000)
    everybody = [did(number) for number in range(circles * size)]
    mongodb["profiles"].insert_many(
        [{"_id": each, "handle": f"c{number % circles}-{number}.example"} for number, each in enumerate(everybody)]
        + [{"_id": hub, "handle": "hub.example"}]
    )
    follows = {(hub, each) for each in everybody} | {(each, hub) for each in everybody}
    for number, each in enumerate(everybody):
        friends = {
            number % circles + circles * int(40 * ((number * 7 + step * 13) % 101 / 101) ** 2) for step in range(8)
        }
        follows |= {(each, everybody[friend]) for friend in friends if friend != number}
    mongodb["follows"].insert_many(
        [{"_id": f"{one} {other}", "did": one, "subject_did": other} for one, other in sorted(follows)]
    )
    page = write_report(config).read_text("utf-8")
    picture = page[page.index('<svg class="graph"') : page.index("</svg>")]
    lines = re.findall(r'<path(?: class="g(\d)")? d="M([\d. ]+)L([\d. ]+)"/>', picture)
    ends = Counter(end for _, *both in lines for end in both)
    assert 150 < len(lines) < 700
    assert max(ends.values()) < len(lines) / 5
    assert "@hub.example" in page[page.index("</svg>") : page.index("<table")]
    of_group: dict[str, Counter[str]] = {}
    for group, circle in re.findall(r'<g class="g(-?\d)"><title>c(\d)-', picture):
        of_group.setdefault(group, Counter())[circle] += 1
    assert len([group for group in of_group if group != "-1"]) >= circles
    assert all(len(found) == 1 for group, found in of_group.items() if group != "-1"), of_group
    assert page.count('<span class="key') >= circles
