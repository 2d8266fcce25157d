"""Submitting and exporting take no more memory for many items than for few."""

import json
import sys
import time
from pathlib import Path

import pytest

from tests.jobs.command import Jobs, measured

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")

FEW, MANY, VERY_MANY = 2_000, 15_000, 1_000_000
MOST_MORE_TO_SUBMIT_MB = 5
MOST_MORE_MB = 12
"""An export holds a few thousand rows at once."""


def parcels(jobs: Jobs, number: int) -> Path:
    """A CSV file with so many, each tenth of them malformed."""
    path = jobs.folder / f"{number}.csv"
    with path.open("w") as file:
        file.write("key,owner,street\n")
        for each in range(number):
            file.write(f'{each},Owner {each},"{each} Main Street"\n' if each % 10 else f"none {each},too few\n")
    return path


def submit(jobs: Jobs, number: int) -> tuple[str, float]:
    """The job, and the peak memory of submitting it."""
    ran, peak = measured(jobs, "submit", "parcels", "--input", str(parcels(jobs, number)), "--json")
    submitted = json.loads(ran.stdout)
    assert (submitted["accepted"], submitted["bad"]) == (number * 9 // 10, number // 10)
    return submitted["job"], peak


def test_memory_does_not_grow_with_the_number_of_lines(jobs: Jobs) -> None:
    (few, of_few), (many, of_many) = submit(jobs, FEW), submit(jobs, MANY)
    assert of_many - of_few < MOST_MORE_TO_SUBMIT_MB, (
        f"{of_few:.0f} MB for {FEW:,} lines, {of_many:.0f} MB for {MANY:,}"
    )
    for form in ("jsonl", "parquet"):
        less, more = (measured(jobs, "export", job, "--format", form)[1] for job in (few, many))
        said = f"{form}: {less:.0f} MB for {FEW:,} items, {more:.0f} MB for {MANY:,}"
        assert more - less < MOST_MORE_MB, said


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_million_lines_take_no_more_memory_than_a_few(jobs: Jobs) -> None:
    _, of_few = submit(jobs, FEW)
    began = time.monotonic()
    job, of_many = submit(jobs, VERY_MANY)
    print(f"\n{VERY_MANY:,} lines submitted in {time.monotonic() - began:.0f} s; {of_few:.0f} -> {of_many:.0f} MB")
    assert of_many - of_few < MOST_MORE_MB
    began = time.monotonic()
    shown = json.loads(measured(jobs, "show", job, "--json")[0].stdout)
    print(f"shown in {time.monotonic() - began:.1f} s")
    assert shown["states"] == {"waiting": VERY_MANY * 9 // 10}
    began = time.monotonic()
    ran, _ = measured(jobs, "export", job, "--json")
    print(f"exported in {time.monotonic() - began:.0f} s")
    assert json.loads(ran.stdout)[0]["rows"] == VERY_MANY * 9 // 10
