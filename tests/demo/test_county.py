"""What `make demo-county` promises."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.root import ROOT

PARCELS = 14
STEPS = (
    "=== 1. A county's portal answers at http://127.0.0.1:",
    "=== 2. Making a job of the parcels",
    "=== 3. What came of it",
    f"{PARCELS} of {PARCELS} parcels are stored.",
    "=== 4. Asking MongoDB",
    "      1   not_a_pdf",
    "=== 5. Writing files",
    "=== 6. Drawing a picture of it",
)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_demonstration_of_a_county_ends_with_counts_charts_manifest_and_tables(
    tmp_path: Path, mongodb_uri: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.demo.county", str(tmp_path), str(PARCELS)],
        cwd=ROOT,
        env={**os.environ, "MONGODB_URI": mongodb_uri},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=540,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    places = [ended.stdout.find(step) for step in STEPS]
    assert -1 not in places, ended.stdout
    assert places == sorted(places)
    assert "Traceback" not in ended.stdout
    assert "harvester sandbox" in ended.stdout.partition(STEPS[-1])[2], "what can be typed when the portal has ended"
    manifest = rows(tmp_path / "export" / "manifest.csv")
    assert len(manifest) == PARCELS
    assert {(row["state"], row["outcome"]) for row in manifest} == {("done", "ok")}
    bills = rows(tmp_path / "export" / "tax_bills.csv")
    assert len(bills) == 2 * PARCELS
    assert sum('"text"' in bill["media_contents"] for bill in bills) == PARCELS - 3
    assert len(list((tmp_path / "data" / "images").rglob("*.pdf"))) == PARCELS - 2
    page = (tmp_path / "report.html").read_text("utf-8")
    assert re.search(r"Sales\b.*\byear\b", page)
    assert re.search(r"Values\b.*\bUSD\b", page)
    assert f"<dt>PDFs</dt><dd>{PARCELS - 2}</dd>" in page


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
