"""docs/adding-a-platform.md is followed by the letter, in an empty folder, against a copy of the site it names."""

import asyncio
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.crawling import Answer, Site
from tests.docs.conftest import House
from tests.docs.test_docs import DOCS
from tests.root import ROOT

PAGE = (DOCS / "adding-a-platform.md").read_text("utf-8")
FILES = dict(re.findall(r"`([\w./]+)`[^`\n]*:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL))
"""Those that the page has one write: name -> text."""
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
MOST_LINES, MOST_OF_A_COUNTY = 66, 8
NUMBER = "04-09-400-001"


def written(name: str) -> int:
    """Lines of a file that are not blank."""
    return sum(bool(line.strip()) for line in FILES[name].splitlines())


def test_a_platform_takes_as_many_lines_as_the_page_says() -> None:
    """Parser, spider, their test, the package and an entry; the saved page is the site's own."""
    assert {*FILES} == {
        *("pyproject.toml", "counties/il.toml", "pages/parcel.html", "boxes.py", "test_boxes.py"),
    }
    lines = sum(written(name) for name in FILES if not name.startswith("pages/"))
    entry = written("counties/il.toml")
    (told,) = re.findall(r"\*\*(\d+) lines\*\*, (\d+) ", " ".join(PAGE.split()))
    assert told == (str(lines), str(entry))
    assert lines <= MOST_LINES
    assert entry <= MOST_OF_A_COUNTY


def install(folder: Path) -> None:
    """Writes what pip writes of a package in a folder that is on the path; this environment stays as it is."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n{''.join(f'{name} = {value}' for name, value in points.items())}\n"
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))


def run(house: House, command: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command in an interpreter of its own, which looks for packages anew."""
    program, *arguments = command.split()
    return subprocess.run(
        [str(Path(sys.executable).with_name(program)), *arguments],
        cwd=house.folder,
        env=house.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


async def test_the_page_leads_from_an_empty_folder_to_a_parcel_in_mongodb(house: House) -> None:
    async with Site(
        {f"/parcel/view/{NUMBER}": [Answer(body=FILES["pages/parcel.html"].encode(), kind="text/html")]}
    ) as site:
        for name, text in FILES.items():
            path = house.folder / ("tests/" + name if name.startswith(("test_", "pages/")) else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("https://made-up.example", site.url).replace("made-up.example", site.name))
        assert tomllib.loads((house.folder / "counties/il.toml").read_text())["us-il-made-up"]["hosts"] == [site.name]
        installed, exported, *commands = COMMANDS
        assert installed == "pip install -e ."
        install(house.folder)
        house.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(house.folder)])
        house.environment.update([exported.removeprefix("export ").split("=")])
        for command in commands:
            ended = await asyncio.to_thread(run, house, command)
            assert ended.returncode == 0, f"{command}: {ended.stdout}"
    (stored,) = house.database["properties"].find()
    assert (stored["_id"], stored["others"]) == (f"us-il-made-up {NUMBER}", {"Drainage District": "Union 4"})
    assert house.database["assessments"].count_documents({"tax_year": 2024}) == 1
    said_by_pytest = await house.test()
    assert "1 passed" in said_by_pytest, said_by_pytest
