"""What `make demo` promises."""

import os
import re
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from pymongo.database import Database

from tests.dashboard.harvest import fill
from tests.demo import steps
from tests.demo.queries import QUERIES, answer
from tests.forking import Ran, begin
from tests.root import ROOT

pytestmark = pytest.mark.timeout(1800)

STEPS = (
    "=== 1. A local copy of Bluesky answers at http://127.0.0.1:",
    "=== 2. Harvesting it",
    "monitors passed",
    "=== 3. Drawing a picture of it",
    "=== 4. Asking MongoDB",
    "=== 5. Now the real thing",
)


def run_demo(folder: Path, mongodb_uri: str) -> Ran:
    """What it writes to stderr stands where it comes in what it writes to stdout."""
    environment = {**os.environ, "MONGODB_URI": mongodb_uri}
    with TemporaryFile() as said:
        files = [None, said.fileno(), said.fileno()]
        demo = begin("tests.demo", str(folder), "12", cwd=ROOT, env=environment, files=files)
        code = demo.wait(540)
        said.seek(0)
        return Ran(code, said.read().decode(), "")


def test_demo_harvests_draws_and_asks(tmp_path: Path, mongodb_uri: str) -> None:
    ended = run_demo(tmp_path, mongodb_uri)
    assert ended.returncode == 0, ended.stdout[-3000:]
    places = [ended.stdout.find(step) for step in STEPS]
    assert places == sorted(places)
    assert -1 not in places
    assert "Traceback" not in ended.stdout
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "data:image/jpeg" in page
    drawn, told = counts_of_report(page), counts_of_summary(ended.stdout)
    assert drawn.pop("picture") <= told.pop("picture"), "some are taken back from accounts that turn out to refuse"
    assert drawn == told


def counts_of_summary(said: str) -> dict[str, int]:
    """Kind -> records and pictures, as the harvest says at its end."""
    rows = " ".join(said[said.index("Collected\n") : said.index("Not collected")].split())
    new = rows.partition("new records ")[2].partition(" images ")[0]
    counts = {kind: int(count.replace(",", "")) for count, kind in re.findall(r"([\d,]+) ([a-z ]+?)s?\b(?:,|$)", new)}
    (images,) = re.findall(r"images ([\d,]+) stored", rows)
    return counts | {"picture": int(images.replace(",", ""))}


def counts_of_report(page: str) -> dict[str, int]:
    """The same, as the picture of the harvest shows them."""
    found = re.findall(r"<dt>([a-z ]+?)s</dt><dd>([\d,]+)</dd>", page)
    return {kind: int(count.replace(",", "")) for kind, count in found}


def test_demo_fails_with_the_exit_code_of_its_first_step_that_fails(tmp_path: Path, mongodb_uri: str) -> None:
    (tmp_path / "file").touch()
    ended = run_demo(tmp_path / "file" / "below", mongodb_uri)
    assert "The demonstration failed: scrapy ended with exit code" in ended.stdout
    assert ended.stdout.rstrip().endswith(f"exit code {ended.returncode}.")
    assert ended.returncode != 0
    assert "=== 3." not in ended.stdout


@pytest.mark.parametrize("question", [question for question, _ in QUERIES])
def test_example_queries_find_something(question: str, mongodb: Database[dict[str, Any]], tmp_path: Path) -> None:
    fill(mongodb, tmp_path, accounts=20, posts=50)
    rows = answer(mongodb, dict(QUERIES)[question])
    assert rows
    assert all(value for row in rows for value in row.values())


def test_columns_of_an_answer_have_heads(mongodb: Database[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    mongodb["parcels"].insert_many([{"land_use": "farm", "count": 12}, {"land_use": "shop", "count": 3}])
    steps.ask(mongodb, "Which uses are there?", 'db.parcels.find({}, {"_id": 0}).sort("count")')
    shown = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert shown == [["land", "use", "count"], ["shop", "3"], ["farm", "12"]]
