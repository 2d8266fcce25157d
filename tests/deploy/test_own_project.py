"""A Scrapy project of one's own goes to a Scrapyd where harvester is installed, and its jobs are runs like others."""

import os
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from csv import DictReader
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harvester.exceptions import DeployError, UsageError
from tests.deploy.conftest import Records, run_deploy
from tests.deploy.jobs import run_of
from tests.deploy.scrapyd import Scrapyd
from tests.forking import run as run_command
from tests.jobs.command import HARVESTER
from tests.ports import free_port
from tests.root import ROOT

ADDON = 'ADDONS = {"harvester.Addon": 500}\n'
PAGES, HELD = 8, 4
SPIDER = """
from pkgutil import get_data

import scrapy


class Shelves(scrapy.Spider):
    name = "shelves"
    item_key = "page"

    def __init__(self, url, **arguments):
        super().__init__(**arguments)
        self.start_urls = [f"{url}/1"]

    def parse(self, response):
        yield {"page": int(response.url.rpartition("/")[2]), "label": %s}
        yield from response.follow_all(css="a")
"""


class Shelf(ThreadingHTTPServer):
    """Pages of which each leads to the next; one is held back until it may go."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.asked: Counter[str] = Counter()
        self.may_go = threading.Event()


class _Page(BaseHTTPRequestHandler):
    server: Shelf

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        page = int(self.path[1:]) if self.path[1:].isdecimal() else 0
        if page == HELD:
            self.server.may_go.wait()
        body = b"<html><body>%s</body></html>" % (b'<a href="/%d">next</a>' % (page + 1) if page < PAGES else b"")
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):  # it is waited for no longer
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with Shelf() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.may_go.set()
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def own_scrapyd(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str], dependencies: Path
) -> Iterator[Scrapyd]:
    """A Scrapyd where harvester is installed."""
    installed = tmp_path_factory.mktemp("installed")
    (installed / "harvester").symlink_to(ROOT / "harvester")
    [metadata] = Path(sysconfig.get_path("purelib")).glob("harvester-*.dist-info")
    (installed / metadata.name).symlink_to(metadata)
    path = os.pathsep.join((str(installed), str(dependencies)))
    scrapyd = Scrapyd(tmp_path_factory.mktemp("scrapyd"), free_port(), {**variables, "PYTHONPATH": path})
    scrapyd.start()
    yield scrapyd
    scrapyd.stop()


def package(folder: Path, url: str = "http://127.0.0.1:1") -> Path:
    """A project as `scrapy startproject` makes it, and a file beside its modules. Returns a folder in it."""
    spiders = folder / "shop" / "spiders"
    spiders.mkdir(parents=True)
    (folder / "scrapy.cfg").write_text(
        f"[settings]\ndefault = shop.settings\n\n[deploy]\nurl = {url}/\nproject = bazaar"
    )
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "settings.py").write_text(f'BOT_NAME = "my shop"\nSPIDER_MODULES = ["shop.spiders"]\n{ADDON}')
    (folder / "shop" / "label.txt").write_text("blue")
    (spiders / "__init__.py").touch()
    (spiders / "shelves.py").write_text(SPIDER % 'get_data("shop", "label.txt").decode()')
    return spiders


def modules(folder: Path) -> Path:
    """A project of modules beside scrapy.cfg. Returns its folder."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = settings\n[deploy]\n#url = http://127.0.0.1:6800/\n")
    (folder / "settings.py").write_text(f'BOT_NAME = "bazaar"\nSPIDER_MODULES = ["shelves"]\n{ADDON}')
    (folder / "shelves.py").write_text(SPIDER % '"blue"')
    return folder


def with_setup(folder: Path) -> Path:
    """A project that says in a setup.py how it is built."""
    package(folder)
    (folder / "setup.py").write_text(
        "from setuptools import find_packages, setup\n"
        "setup(name='shop', version='3', packages=find_packages(), package_data={'shop': ['*.txt']},\n"
        "      entry_points={'scrapy': ['settings = shop.settings']})\n"
    )
    return folder


def test_jobs_of_a_project_of_ones_own_store_its_items_and_continue_after_a_cancel(
    own_scrapyd: Scrapyd, shelf: Shelf, records: Records, variables: dict[str, str], tmp_path: Path
) -> None:
    ran = run_deploy(None, package(tmp_path, own_scrapyd.url))
    assert ran.returncode == 0, ran.stderr
    assert own_scrapyd.get("listprojects")["projects"] == ["bazaar"]
    assert str(tmp_path) in ran.stdout
    url = f"http://127.0.0.1:{shelf.server_address[1]}"
    first = own_scrapyd.schedule("bazaar", "shelves", url=url, setting=["DOWNLOAD_TIMEOUT=1"])
    own_scrapyd.wait_for(lambda: shelf.asked[f"/{HELD}"])
    assert own_scrapyd.post("cancel", project="bazaar", job=first)["prevstate"] == "running"
    own_scrapyd.finish(first)
    run = run_of(records, first)
    assert (run["state"], run["finish_reason"], run["exit_code"]) == ("interrupted", "shutdown", 130), own_scrapyd.said
    shelf.may_go.set()
    again = own_scrapyd.schedule("bazaar", "shelves", url=url)
    own_scrapyd.finish(again)
    last = run_of(records, again)
    assert (last["crawl"], last["state"], last["exit_code"]) == (run["crawl"], "finished", 0), own_scrapyd.said
    found = {item["page"]: item["label"] for item in records.shelves.find()}
    assert found == dict.fromkeys(range(1, PAGES + 1), "blue")
    assert [shelf.asked["/2"], shelf.asked["/3"]] == [1, 1], "it went on"
    exported = run_command(
        HARVESTER, "export", "shelves", "--to", "shelves.csv", cwd=tmp_path, env=os.environ | variables
    )
    assert exported.returncode == 0, exported.stderr
    with (tmp_path / "shelves.csv").open() as file:
        assert sorted(int(row["page"]) for row in DictReader(file)) == [*range(1, PAGES + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("form", [modules, with_setup])
def test_projects_of_other_forms_are_deployed_and_their_folder_stays_as_it_was(
    own_scrapyd: Scrapyd, shelf: Shelf, records: Records, tmp_path: Path, form: Callable[[Path], Path]
) -> None:
    form(tmp_path)
    before = set(tmp_path.rglob("*"))
    ran = run_deploy(own_scrapyd, tmp_path, "--project", form.__name__)
    assert ran.returncode == 0, ran.stderr
    assert {path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts} == before
    shelf.may_go.set()
    url = f"http://127.0.0.1:{shelf.server_address[1]}"
    job = own_scrapyd.schedule(form.__name__, "shelves", url=url)
    own_scrapyd.finish(job)
    assert run_of(records, job)["exit_code"] == 0, own_scrapyd.said
    assert records.shelves.count_documents({"label": "blue"}) >= PAGES


@pytest.mark.slow
def test_a_scrapyd_without_harvester_keeps_no_project_that_needs_it(empty_scrapyd: Scrapyd, tmp_path: Path) -> None:
    ran = run_deploy(empty_scrapyd, package(tmp_path))
    assert ran.returncode == DeployError.exit_code
    assert "No module named 'harvester'" in ran.stderr
    assert "bazaar" not in empty_scrapyd.get("listprojects")["projects"]


def test_what_cannot_be_deployed_is_refused_before_scrapyd_is_asked(tmp_path: Path, free_port: int) -> None:
    package(tmp_path)
    settings = tmp_path / "shop" / "settings.py"
    as_it_was = settings.read_text()
    nowhere = f"http://127.0.0.1:{free_port}"

    def refused(folder: Path = tmp_path) -> str:
        ran = run_deploy(nowhere, folder)
        assert ran.returncode == UsageError.exit_code, ran.stderr
        return ran.stderr

    settings.write_text(as_it_was.replace(ADDON, ""))
    assert "harvester project add" in refused()
    settings.write_text(as_it_was.replace("shop.spiders", "shop.settings"))
    assert "SPIDER_MODULES" in refused()
    settings.write_text(as_it_was)
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(name='shop', packages=['shop'])\n")
    assert "settings = shop.settings" in refused()
    settings.unlink()
    assert "shop.settings" in refused()
    (tmp_path / "scrapy.cfg").unlink()
    assert "scrapy.cfg" in refused()
