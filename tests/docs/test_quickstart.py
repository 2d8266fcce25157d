"""docs/quickstart.md is followed by the letter, against copies of its sites. Only the installing is left out."""

import re
import shlex

from pyarrow import parquet

from tests.crawling import Answer, Site
from tests.docs.conftest import House
from tests.docs.test_docs import DOCS
from tests.sandbox.process import Sandbox

PAGE = (DOCS / "quickstart.md").read_text("utf-8")
FILES = dict(re.findall(r"`([\w.]+)`[^`\n]*:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
"""Those that the page has one write: name -> text."""
BLOCKS = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
INSTALLING, BLUESKY, SHOWING, BOOKS = BLOCKS
MOST_COMMANDS = 6
HTML = "text/html; charset=utf-8"


def books() -> dict[str, list[Answer]]:
    """A list of books on two pages: path -> answers."""
    row = (
        '<article><h3><a title="Book {0}" href="/{0}">B...</a></h3><p class="price_color">£{0}.50</p>{1}</article>'
    ).format
    first = row(1, "In stock") + row(2, "Sold out") + '<li class="next"><a href="/page-2">next</a></li>'
    pages = {"/": first, "/page-2": row(3, "In stock")}
    return {path: [Answer(body=text.encode(), kind=HTML)] for path, text in pages.items()}


def as_run_here(command: str) -> str:
    """`uv run` fetches packages that are here."""
    words = shlex.split(command)
    return shlex.join(["python", *words[4:]] if words[:3] == ["uv", "run", "--with"] else words)


def test_each_part_takes_few_commands() -> None:
    assert len(INSTALLING + BLUESKY + SHOWING) <= MOST_COMMANDS
    assert len(INSTALLING + BOOKS + SHOWING) <= MOST_COMMANDS


async def test_the_page_leads_from_an_empty_folder_to_data_frames(house: House) -> None:
    with Sandbox(accounts=5, posts=40) as network:
        async with Site(books()) as shop:
            house.environment["HARVESTER_PLC_URL"] = network.url
            for name, text in FILES.items():
                (house.folder / name).write_text(text.replace("https://books.toscrape.com", shop.url), "utf-8")
            setting, crawl, *rest = BLUESKY
            name, value = setting.removeprefix("export ").split("=")
            house.environment[name] = value
            assert "seeds=bsky.app" in crawl
            local = crawl.replace("bsky.app", network.handle(0)) + f" -a service={network.url}"
            for command in (local, *rest):
                await house.runs(command)
            shown = await house.runs(as_run_here(SHOWING[0]))
            number = house.database["posts"].count_documents({})
            assert number > 5
            assert shown.splitlines()[-1] == f"{number} posts"
            assert "like_count" in shown

            for command in BOOKS:
                await house.runs(command)
            rows = parquet.read_table(house.folder / "books.parquet").to_pylist()
            assert [(row["title"], row["price"]) for row in rows] == [("Book 1", 1.5), ("Book 3", 3.5)]
            assert house.database["books"].count_documents({"in_stock": False}) == 1

    by_month = await house.runs("python recipe_duckdb.py")
    assert "month" in by_month
    assert "at://did:plc:" in by_month, "from what was staged"
    of_books = await house.runs(
        f"python recipe_pandas.py {house.environment['HARVESTER_MONGODB_URI']} {house.database.name}"
    )
    assert "Book 3" in of_books
    assert "provenance.url" in of_books
