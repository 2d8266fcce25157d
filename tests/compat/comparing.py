"""Runs the tests of another project twice, and compares how they ended."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path


def download(folder: Path, release: str) -> Path:
    """Returns the folder of the unpacked sdist."""
    name = release.partition("==")[0]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-binary", name, "--dest", str(folder), release], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


def outcomes(source: Path, tests: list[str], options: list[str], environment: Mapping[str, str]) -> dict[str, bool]:
    """Returns test -> whether it passes. Exits when nothing was run."""
    written = source / "outcomes.json"
    written.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", str(source), "-p", "no:cacheprovider", *options, *tests],
        cwd=source,
        env=os.environ | environment | {"COMPAT_OUTCOMES": str(written)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not written.exists():
        sys.exit(f"{done.stdout}\n{done.stderr}")
    if "-v" in sys.argv:
        print(done.stdout)
    found: dict[str, bool] = json.loads(written.read_text())
    return found


def compare(
    there: str,
    theirs: Mapping[str, bool],
    ours: Mapping[str, bool],
    reasons: Mapping[str, str],
    by_chance: str = "",
) -> bool:
    """Prints how each test ended on both sides, and returns whether each ended as it should.

    `by_chance`: the beginning of the names of listed tests that pass at times.
    """
    wrong = len(unknown := reasons.keys() - {test.partition("[")[0] for test in theirs})
    for name in sorted(unknown):
        print(f"unknown   {name}: it has a reason, and there is no such test")
    for name, passes_there in theirs.items():
        if not passes_there:
            print(f"left out  {name}: it does not pass on {there} itself")
            continue
        reason, passes = reasons.get(name.partition("[")[0]), ours.get(name, False)
        may_pass = bool(by_chance) and name.startswith(by_chance)
        wrong += passes is bool(reason) and not (passes and may_pass)
        said = "passes, and has a reason not to" if reason and passes else reason or ""
        print(f"{'passes' if passes else 'fails':9} {name}{': ' if said else ''}{said}")
    passing = [name for name, passes_there in theirs.items() if passes_there]
    also = sum(ours.get(name, False) for name in passing)
    print(f"{also} of {len(passing)} that pass on {there} pass on harvester, too; {wrong} unexpected.")
    return not wrong and bool(passing)
