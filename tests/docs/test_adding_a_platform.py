"""docs/adding-a-platform.md is followed by the letter, in an empty folder, against a copy of the site it names."""

import re
import tomllib

from tests.crawling import Answer, Site
from tests.docs.conftest import House
from tests.docs.test_docs import DOCS

PAGE = (DOCS / "adding-a-platform.md").read_text("utf-8")
FILES = dict(re.findall(r"`([\w./]+)`[^`\n]*:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL))
"""Those that the page has one write: name -> text."""
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
MOST_LINES, MOST_OF_A_COUNTY = 65, 8
NUMBER = "04-09-400-001"


def written(name: str) -> int:
    """Lines of a file that are not blank."""
    return sum(bool(line.strip()) for line in FILES[name].splitlines())


def test_a_platform_takes_as_many_lines_as_the_page_says() -> None:
    """Parser, spider, their test, the project and an entry; the saved page is the site's own."""
    assert {*FILES} == {
        *("scrapy.cfg", "settings.py", "counties/il.toml", "pages/parcel.html", "devnet.py", "test_devnet.py"),
    }
    lines = sum(written(name) for name in FILES if not name.startswith("pages/"))
    entry = written("counties/il.toml")
    assert f"**{lines} lines**, {entry} of them the county's" in " ".join(PAGE.split())
    assert lines <= MOST_LINES
    assert entry <= MOST_OF_A_COUNTY


async def test_the_page_leads_from_an_empty_folder_to_a_parcel_in_mongodb(house: House) -> None:
    async with Site(
        {f"/parcel/view/{NUMBER}": [Answer(body=FILES["pages/parcel.html"].encode(), kind="text/html")]}
    ) as site:
        for name, text in FILES.items():
            path = house.folder / ("tests/" + name if name.startswith(("test_", "pages/")) else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("https://made-up.example", site.url).replace("made-up.example", site.name))
        assert tomllib.loads((house.folder / "counties/il.toml").read_text())["us-il-made-up"]["hosts"] == [site.name]
        exported, *commands = COMMANDS
        house.environment.update([exported.removeprefix("export ").split("=")])
        said = [await house.runs(command) for command in commands]
        assert f"the parcel {NUMBER} is as its entry says: situs_address, acres." in said[0]
    (stored,) = house.database["properties"].find()
    assert (stored["_id"], stored["others"]) == (f"us-il-made-up {NUMBER}", {"Drainage District": "Union 4"})
    assert house.database["assessments"].count_documents({"tax_year": 2024}) == 1
    said_by_pytest = await house.test()
    assert "1 passed" in said_by_pytest, said_by_pytest
