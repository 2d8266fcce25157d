"""The egg that Scrapyd runs: the package as a zip file, made from a source checkout without a network."""

import os
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

from harvester.exceptions import UsageError

SOURCES = ("pyproject.toml", "README.md", "LICENSE")
"""Files beside the package of which it is built."""
ENTRY_POINT = "settings = harvester.settings"
"""Where Scrapyd's runner finds the settings."""
BUILD_SECONDS = 300
"""A build takes about two."""


def checkout() -> Path:
    """The folder of the source checkout that this package was imported from. Raises UsageError elsewhere."""
    root = Path(__file__).resolve().parents[2]
    if all((root / name).is_file() for name in SOURCES):
        return root
    raise UsageError(
        f"harvester deploy builds the egg from a source checkout, and {root} is none: this harvester was installed as a"
        " package. Clone the repository, run `make setup` there, and deploy from that folder."
    )


def check_imported() -> None:
    """Raises UsageError when Scrapyd's runner has another harvester than the egg that was deployed."""
    for path in sys.path:
        if path.endswith(".egg") and zipfile.is_zipfile(path) and not __file__.startswith(path):
            with zipfile.ZipFile(path) as egg:
                if f"{__name__.replace('.', '/')}.py" in egg.namelist():
                    raise UsageError(
                        f"Scrapyd would run the harvester of {Path(__file__).parents[1]} instead of the deployed one."
                        " Uninstall it where Scrapyd runs, leave its dependencies (requirements.lock), and do not start"
                        " Scrapyd in the folder of a checkout."
                    )


def build_egg(root: Path) -> bytes:
    """The egg of the checkout `root`: what its build backend puts into a wheel, laid out as an egg.

    bdist_egg would need a setup.py, and loses its entry points to those of pyproject.toml. The backend works in a
    copy, since it leaves folders behind. Raises UsageError with its words when the package cannot be built.
    """
    if find_spec("setuptools") is None:
        raise UsageError("harvester deploy builds with setuptools, which is missing: pip install 'harvester[deploy]'.")
    with tempfile.TemporaryDirectory(prefix="harvester-egg-") as folder:
        copy = Path(folder)
        for name in SOURCES:
            copy2(root / name, copy)
        copytree(root / "harvester", copy / "harvester", ignore=ignore_patterns("__pycache__"))
        return egg_of(_build_wheel(copy))


def egg_of(wheel: Path) -> bytes:
    """The wheel's content as an egg.

    The metadata is in it twice: as EGG-INFO for Scrapyd, which finds its way by pkg_resources, and as it was for
    importlib.metadata, which wants the name of the package in the name of an egg; Scrapyd's are named by version.
    """
    egg = BytesIO()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(egg, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            folder, _, rest = name.partition("/")
            if not folder.endswith(".dist-info"):
                target.writestr(name, source.read(name))
            elif rest == "METADATA":
                target.writestr(name, source.read(name))
                target.writestr("EGG-INFO/PKG-INFO", source.read(name))
            elif rest == "entry_points.txt":
                entry_points = source.read(name).decode()
                target.writestr(name, entry_points)  # Scrapy finds harvester's commands by it
                target.writestr("EGG-INFO/entry_points.txt", entry_points)
                if ENTRY_POINT not in entry_points:
                    raise UsageError(f"pyproject.toml lacks the entry point [scrapy] {ENTRY_POINT}.")
        target.writestr("EGG-INFO/zip-safe", "\n")
    return egg.getvalue()


def _build_wheel(folder: Path) -> Path:
    build = subprocess.run(
        [sys.executable, "-c", "from setuptools import build_meta; build_meta.build_wheel('dist')"],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    wheels = list((folder / "dist").glob("*.whl"))
    if build.returncode or not wheels:
        raise UsageError(f"The package cannot be built:\n{build.stderr.strip()[-2000:]}")
    return wheels[0]
