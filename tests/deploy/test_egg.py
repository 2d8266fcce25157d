"""The egg holds all of the package, and the package works from inside of it."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harvester import __version__
from harvester.exceptions import UsageError
from harvester.worker.egg import build_egg
from tests import forking
from tests.deploy.conftest import SOURCES, copy_checkout
from tests.deploy.scrapyd import BARE_PYTHON
from tests.root import ROOT

PACKAGE = ROOT / "harvester"
SETTINGS = "harvester.settings"
MAY_ASK_FOR_ITS_FILE = {
    "cli/spider_template.py",  # writes a test that asks for its own
    "control/pages/mount.py",  # the page, which no egg serves
    "worker/egg.py",  # to say which harvester Scrapyd would run
    "stores/servers/kinds.py",  # that of another package
}
READ_ALL = """
import sys
from importlib.resources import files
for path in sys.argv[1:]:
    print(path, len(files("harvester").joinpath(path).read_bytes()))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def egg(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("egg") / "1.egg"
    path.write_bytes(build_egg(checkout, SETTINGS))
    return path


def data_files() -> list[str]:
    """Of the package, as paths in it."""
    return [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]


@pytest.fixture
def run(egg: Path, dependencies: Path) -> Callable[..., str]:
    """What a script prints, where the only harvester is the egg."""
    return partial(_run, egg, dependencies)


def _run(egg: Path, dependencies: Path, script: str, *arguments: str) -> str:
    ran = subprocess.run(
        [BARE_PYTHON, "-c", script, *arguments],
        cwd=egg.parent,
        env={"PYTHONPATH": f"{egg}{os.pathsep}{dependencies}", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_every_file_of_the_package_is_in_the_egg_and_nothing_else(egg: Path) -> None:
    sources = {str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*.py")}
    metadata = {"EGG-INFO/PKG-INFO", "EGG-INFO/entry_points.txt", "EGG-INFO/zip-safe"}
    metadata |= {f"harvester-{__version__}.dist-info/{name}" for name in ("METADATA", "entry_points.txt")}
    with zipfile.ZipFile(egg) as opened:
        assert set(opened.namelist()) == sources | {f"harvester/{path}" for path in data_files()} | metadata
        assert "[scrapy]\nsettings = harvester.settings" in opened.read("EGG-INFO/entry_points.txt").decode()


@pytest.mark.usefixtures("egg")
def test_its_build_leaves_the_checkout_as_it_was(checkout: Path) -> None:
    assert {path.name for path in checkout.iterdir()} == {"harvester", *SOURCES}
    assert files_of(checkout / "harvester") == files_of(PACKAGE)


def files_of(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if "__pycache__" not in path.parts}


def test_every_module_is_imported_from_inside_the_egg(egg: Path) -> None:
    ran = forking.run("tests.deploy.importing", str(egg), cwd=egg.parent, env=os.environ)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) == len(list(PACKAGE.rglob("*.py"))) - 1


def test_every_data_file_is_read_from_inside_the_egg(run: Callable[..., str]) -> None:
    assert len(run(READ_ALL, *data_files()).splitlines()) == len(data_files()) > 0


def test_no_module_looks_for_files_beside_its_own() -> None:
    asking = {
        str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if re.search(r"\b__file__\b", path.read_text())
    }
    assert asking <= MAY_ASK_FOR_ITS_FILE


def test_scrapy_refuses_to_run_another_harvester_than_the_deployed_one(egg: Path) -> None:
    script = "import sys; sys.path.append(sys.argv[1]); from harvester.commands.chosen import Crawl; Crawl()"
    ran = subprocess.run(
        [sys.executable, "-c", script, str(egg)],
        cwd=egg.parent,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "SCRAPY_SETTINGS_MODULE": SETTINGS},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == UsageError.exit_code, ran.stderr
    assert str(PACKAGE) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_what_the_build_says_is_shown_when_it_fails(copy_of_checkout: Callable[[], Path]) -> None:
    root = copy_of_checkout()
    entry_point = f'[project.entry-points.scrapy]\nsettings = "{SETTINGS}"\n'
    (root / "pyproject.toml").write_text(f"[project]\nname = 3\n{entry_point}")
    with pytest.raises(UsageError, match=r"invalid pyproject\.toml"):
        build_egg(root, SETTINGS)
