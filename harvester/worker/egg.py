"""The egg that Scrapyd runs: a Scrapy project as a zip file, built from its folder without a network."""

import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from configparser import ConfigParser
from importlib.util import find_spec
from io import BytesIO, StringIO
from pathlib import Path

from harvester.exceptions import UsageError

BUILD_SECONDS = 300
"""Seconds until a build is aborted; it takes about two."""
_SETUP = ["-c", "from setuptools import setup; setup()"]
"""A substitute for setup.py, for projects that only have pyproject.toml."""
ENTRY_POINTS = "EGG-INFO/entry_points.txt"
_CRAWL = "harvester.commands.chosen:Crawl"
"""The Scrapy command that runs jobs.

The egg names this command, so that an egg cannot be listed where harvester is missing.
"""
_PKG_INFO = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"


def check_imported() -> None:
    """Raises UsageError when Scrapyd's runner imports another harvester than the deployed egg has."""
    for path in sys.path:
        if path.endswith(".egg") and zipfile.is_zipfile(path) and not __file__.startswith(path):
            with zipfile.ZipFile(path) as egg:
                if f"{__name__.replace('.', '/')}.py" in egg.namelist():
                    raise UsageError(
                        f"Scrapyd would run the harvester of {Path(__file__).parents[1]} instead of the deployed one."
                        " Uninstall it where Scrapyd runs, leave its dependencies (requirements.lock), and do not start"
                        " Scrapyd in the folder of a checkout."
                    )


def build_egg(folder: Path, settings: str, spiders: Iterable[str] = ()) -> bytes:
    """Returns the egg of the project in `folder` with the settings module `settings`. Leaves the folder unchanged.

    A project with a setup.py, or with Scrapy entry points in pyproject.toml, defines its own content. The egg of
    another project has all modules, and all files in the packages of the settings and of `spiders`. Raises UsageError
    when the egg cannot be built, or when Scrapyd would not find the settings.
    """
    if (folder / "setup.py").is_file() or _names_its_settings(folder):
        with tempfile.TemporaryDirectory(prefix="harvester-egg-") as temporary:
            egg = egg_of(_build_wheel(folder, Path(temporary)))
    else:
        egg = _egg_of_modules(folder, settings, {name.partition(".")[0] for name in (settings, *spiders)})
    with zipfile.ZipFile(BytesIO(egg)) as built:
        names = built.namelist()
        entry_points = _parser()
        entry_points.read_string(built.read(ENTRY_POINTS).decode())
    if entry_points.get("scrapy", "settings", fallback="") != settings:
        raise UsageError(
            f"Scrapyd would not find the settings of {folder}: in setup.py give entry_points={{'scrapy': ['settings ="
            f' {settings}\']}}, or in pyproject.toml settings = "{settings}" below [project.entry-points.scrapy].'
        )
    module = settings.replace(".", "/")
    if not {f"{module}.py", f"{module}/__init__.py"}.intersection(names):
        raise UsageError(
            f"The egg would lack the settings {settings}: have them in {folder}, or write a setup.py there that says"
            " which packages belong to the project."
        )
    return egg


def _names_its_settings(folder: Path) -> bool:
    """Returns True if pyproject.toml has entry points for Scrapy. Raises UsageError when it cannot be read."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        return False
    try:
        project = tomllib.loads(path.read_text("utf-8")).get("project", {})
    except ValueError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    return isinstance(project, dict) and "scrapy" in project.get("entry-points", {})


def egg_of(wheel: Path) -> bytes:
    """Returns the content of a wheel as an egg.

    The egg has the metadata twice: as EGG-INFO for Scrapyd, which uses pkg_resources, and unchanged for
    importlib.metadata, which expects the package name in an egg's name. Scrapyd names eggs by version.
    """
    egg = BytesIO()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(egg, "w", zipfile.ZIP_DEFLATED) as target:
        entry_points, metadata = "", ""
        for name in source.namelist():
            folder, _, rest = name.partition("/")
            if not folder.endswith(".dist-info"):
                target.writestr(name, source.read(name))
            elif rest == "METADATA":
                metadata = folder
                target.writestr(name, source.read(name))
                target.writestr("EGG-INFO/PKG-INFO", source.read(name))
            elif rest == "entry_points.txt":
                entry_points = source.read(name).decode()
        for place in (f"{metadata}/entry_points.txt", ENTRY_POINTS):
            target.writestr(place, _with_crawl(entry_points))
        target.writestr("EGG-INFO/zip-safe", "\n")
    return egg.getvalue()


def _with_crawl(entry_points: str) -> str:
    parser = _parser()
    parser.read_string(entry_points)
    if not parser.has_section("scrapy.commands"):
        parser.add_section("scrapy.commands")
    parser["scrapy.commands"].setdefault("crawl", _CRAWL)
    text = StringIO()
    parser.write(text)
    return text.getvalue()


def _parser() -> ConfigParser:
    """Returns a parser of entry points like importlib.metadata's: names keep their capitals."""
    parser = ConfigParser(delimiters="=", interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    return parser


def _egg_of_modules(folder: Path, settings: str, packages: set[str]) -> bytes:
    """Returns the egg of a project without build instructions."""
    egg = BytesIO()
    with zipfile.ZipFile(egg, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as target:
        for path in sorted(folder.glob("*.py")):
            target.write(path, path.name)
        for top in sorted(folder.iterdir()):
            if top.name in packages or (top / "__init__.py").is_file():
                for path in (top, *sorted(top.rglob("*"))):  # zipimport finds namespace packages by folder entries
                    within = path.relative_to(folder)
                    if any(part.startswith((".", "__pycache__")) for part in within.parts):
                        continue
                    if path.is_dir() or path.suffix == ".py" or top.name in packages:
                        target.write(path, within)
        target.writestr("EGG-INFO/PKG-INFO", _PKG_INFO.format(name=settings.partition(".")[0]))
        target.writestr(ENTRY_POINTS, _with_crawl(f"[scrapy]\nsettings = {settings}\n"))
        target.writestr("EGG-INFO/zip-safe", "\n")
    return egg.getvalue()


def _build_wheel(folder: Path, temporary: Path) -> Path:
    """Builds a wheel in `temporary`. bdist_egg would drop the entry points of setup.py if pyproject.toml has some."""
    if find_spec("setuptools") is None:
        raise UsageError("harvester deploy builds with setuptools, which is missing: pip install 'harvester[deploy]'.")
    own = ["setup.py"] if (folder / "setup.py").is_file() else _SETUP
    build = subprocess.run(
        [
            *(sys.executable, *own),
            *("egg_info", "--egg-base", str(temporary)),
            *("build", "--build-base", str(temporary / "build")),
            *("bdist_wheel", "--bdist-dir", str(temporary / "wheel"), "--dist-dir", str(temporary / "dist")),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    wheels = list((temporary / "dist").glob("*.whl"))
    if build.returncode or not wheels:
        raise UsageError(f"The project of {folder} cannot be built:\n{build.stderr.strip()[-2000:]}")
    return wheels[0]
