"""docs/adding-a-site.md is followed by the letter, in an empty folder, against copies of the sites it names."""

import re
from typing import Any

import msgspec
import pytest

from harvester import meta
from tests.crawling import Answer, Site
from tests.docs.conftest import House
from tests.docs.test_docs import DOCS

PAGE = (DOCS / "adding-a-site.md").read_text("utf-8")
FILES = dict(re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL))
"""Those that the page has one write: name -> text."""
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
WANTED = ("sharp-objects_997", "soumission_998")
HTML = "text/html; charset=utf-8"
MOST_LINES = 30
MOST_KEYS = 10


def books() -> dict[str, list[Answer]]:
    """The pages of a bookshop: path -> answers."""
    book = '<article><h1>Book {0}</h1><p class="price_color">£{0}.50</p><table><td>upc{0}</td></table></article>'
    link = '<h3><a href="/catalogue/{0}/index.html">Book {0}</a></h3>'
    pages = {f"/catalogue/{n}/index.html": book.format(n) for n in (1, 2, 3, 4, 5, *WANTED)}
    pages["/"] = "".join(map(link.format, (1, 2, 3))) + '<li class="next"><a href="page-2.html">next</a></li>'
    pages["/page-2.html"] = "".join(map(link.format, (4, 5)))
    answers = {path: f"<title>A shop</title>{text}".encode() for path, text in pages.items()}
    missing = {"/catalogue/no-such-book_1/index.html": [Answer(404, b"")]}
    return {path: [Answer(body=body, kind=HTML)] for path, body in answers.items()} | missing


def quotes() -> dict[str, list[Answer]]:
    """The answers of an API of quotes."""
    rows = [{"author": {"slug": f"Author-{n}"}, "text": f"“Quote {n}”", "tags": ["life"] * (n % 2)} for n in range(25)]
    pages = {n: {"page": n, "has_next": n < 3, "quotes": rows[10 * n - 10 : 10 * n]} for n in (1, 2, 3)}
    return {f"/api/quotes?page={n}": [Answer(body=msgspec.json.encode(page))] for n, page in pages.items()}


@pytest.mark.parametrize("name", ["books.py", "quotes.py", "wanted.py"])
def test_a_site_takes_few_lines(name: str) -> None:
    assert FILES[name].count("\n") <= MOST_LINES
    written = [line for line in (FILES[name] + FILES["settings.py"]).splitlines() if line]
    assert len(written) <= MOST_LINES, "with the settings"


async def test_the_page_leads_from_an_empty_folder_to_records_in_mongodb(house: House) -> None:
    async with Site(books()) as shop, Site(quotes()) as api:
        for name, text in FILES.items():
            local = text.replace("https://books.toscrape.com", shop.url).replace("https://quotes.toscrape.com", api.url)
            (house.folder / name).write_text(local, "utf-8")
        assert shop.url in (house.folder / "books.py").read_text()
        assert api.url in (house.folder / "quotes.py").read_text()
        said = {command: await house.runs(command) for command in COMMANDS}
        assert said.keys() >= {"harvester crawl books", "harvester crawl quotes", "python show.py"}

        from_list = {"provenance.spider": "books"}
        stored = list(house.database["books"].find(from_list, {"provenance.fetched_at": 0}).sort("_id"))
        assert stored == [
            {
                "_id": f"upc{n}",
                "upc": f"upc{n}",
                "title": f"Book {n}",
                "price": n + 0.5,
                "provenance": {"url": f"{shop.url}/catalogue/{n}/index.html", "spider": "books"},
            }
            for n in range(1, 6)
        ]
        wanted = house.database["books"].distinct("title", {"provenance.spider": "wanted"})
        assert wanted == [f"Book {name}" for name in WANTED]
        items = {item["key"]: item["state"] for item in house.database["job_items"].find()}
        assert items == {**dict.fromkeys(WANTED, "done"), "no-such-book_1": "done"}
        assert house.database["quotes"].count_documents({}) == 25
        assert house.database["quotes"].find_one({"_id": "Author-7 “Quote 7”"}, {"tags": 1}) == {
            "_id": "Author-7 “Quote 7”",
            "tags": ["life"],
        }
        assert said["python show.py"].splitlines()[0].startswith("upc1 Book 1 1.5 http")
        assert said["python show.py"].splitlines()[-1] == "12 quotes about life"
        assert "harvester crawl books -s SCHEDULER_PERSIST=True" in said
        assert shop.count("/catalogue/5/index.html") == 1, "what was asked for is not asked for again"
        await house.runs("harvester crawl books")
        assert shop.count("/catalogue/5/index.html") == 2, "all is asked for anew"


@pytest.mark.parametrize(
    ("url", "read"),
    [
        pytest.param("/", {"title": "A shop"}, id="html"),
        pytest.param("/api/quotes?page=1", {"size": 3}, id="json", marks=pytest.mark.slow),
    ],
)
async def test_a_new_spider_runs_at_once_and_so_does_its_test(house: House, url: str, read: dict[str, Any]) -> None:
    async with Site(books() | quotes()) as site:
        said = await house.runs(f"harvester spiders new my_county {site.url}{url}")
        assert all((house.folder / path).exists() for path in said.split("\n\n")[0].splitlines())
        assert site.count(url) == 1
        saved = next((house.folder / "tests" / "pages").iterdir())
        assert saved.read_bytes() == site.answers[url][0].body
        assert "my_county" in await house.runs("harvester spiders list")
        await house.runs("harvester crawl my_county")
        (record,) = house.database["my_county_pages"].find({}, {"provenance": 0})
        assert record == {"_id": site.url + url, "url": site.url + url} | read
        assert "1 passed" in await house.test()

        saved.write_bytes(b"[]" if "size" in read else b"<title>Another shop</title>")
        assert "1 failed" in await house.test(), "it sees what is read"

        again = await house.run(f"harvester spiders new my_county {site.url}{url}")
        assert (again.code, "my_county" in again.log) == (2, True)
        assert saved.read_bytes() in (b"[]", b"<title>Another shop</title>")
        await house.runs(f"harvester spiders new another {site.url}{url}")
        listed = await house.runs("harvester spiders list")
        assert "another" in listed
        assert "my_county" in listed


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ("County {}", 2, ["'County'"]),
        ("class {}", 2, ["'class'"]),
        ("../county {}", 2, ["'../county'"]),
        ("county /etc/passwd", 2, ["'/etc/passwd'"]),
        ("county {}/nothing", 3, ["/nothing", "not_found: HTTP 404"]),
        ("county {}/forbidden", 3, ["/forbidden", "policy_denied"]),
        ("county {}/untitled", 2, ["/untitled", "title"]),
        ("county {}/empty", 2, ["/empty", "title"]),
        ("county {}/broken.json", 2, ["/broken.json", "JSON"]),
        ("county {}/scalar.json", 2, ["/scalar.json", "object", "array"]),
    ],
)
async def test_a_spider_that_cannot_begin_is_refused_and_nothing_is_written(
    house: House, arguments: str, code: int, named: list[str]
) -> None:
    class Forbidding(Site):
        robots = Answer(body=b"User-agent: *\nDisallow: /forbidden", kind="text/plain")

    answers = {
        "/nothing": [Answer(404, b"")],
        "/untitled": [Answer(body=b"<p>no title</p>", kind=HTML)],
        "/empty": [Answer(body=b"", kind=HTML)],
        "/broken.json": [Answer(body=b"{'a': 1}")],
        "/scalar.json": [Answer(body=b"17")],
    }
    async with Forbidding(answers) as site:
        ended = await house.run(f"harvester spiders new {arguments.format(site.url)}")
        assert (ended.code, [name for name in named if name not in ended.log]) == (code, []), ended.log
        assert "Traceback" not in ended.log
        assert site.count("/forbidden") == 0
    assert [path.name for path in house.folder.iterdir() if not path.name.startswith(".")] == []


async def test_a_project_that_keeps_its_spiders_elsewhere_is_told_so(house: House) -> None:
    (house.folder / "scrapy.cfg").write_text(FILES["scrapy.cfg"])
    (house.folder / "settings.py").write_text("from harvester.settings import *\nNEWSPIDER_MODULE = 'books'\n")
    ended = await house.run("harvester spiders new county http://127.0.0.1:1/")
    assert ended.code == 2
    for named in ("NEWSPIDER_MODULE", "'books'", "`spiders`"):
        assert named in ended.log


async def test_a_module_that_does_not_compile_is_named_and_no_spider_is_written_beside_it(house: House) -> None:
    async with Site(books()) as site:
        await house.runs(f"harvester spiders new county {site.url}/")
        (house.folder / "sites" / "spiders" / "broken.py").write_text("name = 'not closed\n")
        ended = await house.run(f"harvester spiders new more {site.url}/")
        assert (ended.code, site.count("/")) == (2, 1)
    for named in ("sites.spiders", "SyntaxError: ", "broken.py"):
        assert named in ended.log
    assert "Traceback" not in ended.log
    assert not (house.folder / "sites" / "spiders" / "more.py").exists()


def test_the_keys_of_meta_in_the_table_are_the_public_ones() -> None:
    public = {value for name, value in vars(meta).items() if name.isupper() and name != "CHANGED_LATER"}
    table = PAGE.partition("| key | value |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == public
    assert len(public) <= MOST_KEYS
