"""A crawl that fails before its spider opens says why in its last line, and is a run where there is a MongoDB."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database
from scrapy.settings import Settings, default_settings

from harvester.exceptions import UsageError
from harvester.project import check_values
from tests.forking import Ran, run
from tests.root import ROOT

Document = dict[str, Any]
Scrapy = Callable[..., Ran]
SECONDS = 120
SPIDER = """
from harvester.spiders.base import HarvesterSpider


class Unlucky(HarvesterSpider):
    name = "unlucky"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        raise ValueError("no luck")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    (tmp_path / "settings.py").write_text("from harvester.settings import *\nSPIDER_MODULES = ['unlucky']\n")
    (tmp_path / "unlucky.py").write_text(SPIDER)
    return tmp_path


@pytest.fixture
def environment(project: Path, mongodb_uri: str, redis_url: str, mongodb: Database[Document]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "SCRAPY_SETTINGS_MODULE"}
    return {
        **own,
        "PYTHONPATH": f"{ROOT}:{project}",
        "HARVESTER_MONGODB_URI": mongodb_uri,
        "HARVESTER_REDIS_URL": redis_url,
        "HARVESTER_DATABASE": mongodb.name,
    }


@pytest.fixture
def crawl(project: Path, environment: dict[str, str]) -> Scrapy:
    return lambda *words: run("scrapy", "crawl", *words, cwd=project, env=environment)


def last_of(ran: Ran) -> str:
    return ran.stderr.rstrip().rpartition("\n")[2]


def test_a_spider_that_raises_is_a_run_with_its_reason(crawl: Scrapy, mongodb: Database[Document]) -> None:
    ran = crawl("unlucky")
    assert ran.returncode == 1
    assert "unlucky.py" in ran.stderr, "the log has the traceback"
    assert "ValueError: no luck" in last_of(ran)
    [found] = mongodb["runs"].find()
    assert (found["spider"], found["state"], found["exit_code"]) == ("unlucky", "failed", 1)
    assert (found["finish_reason"], found["message"]) == ("program_error", "ValueError: no luck")


def test_a_module_that_cannot_be_imported_is_named_without_scrapys_traceback(
    crawl: Scrapy, project: Path, mongodb: Database[Document]
) -> None:
    (project / "unlucky.py").write_text("import os\nimport luck_of_the_irish\n")
    ran = crawl("unlucky")
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert "ModuleNotFoundError: " in ran.stderr
    for named in (f"{project}/unlucky.py", "line 2", "import luck_of_the_irish"):
        assert named in last_of(ran)
    [found] = mongodb["runs"].find()
    assert (found["spider"], found["finish_reason"], found["exit_code"]) == ("unlucky", "usage_error", 2)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["-s", "CLOSESPIDER_ITEMCOUNT=x"], ["-s CLOSESPIDER_ITEMCOUNT=x", "number"]),
        (["-s", "LOG_LEVEL=loud"], ["-s LOG_LEVEL=loud", "DEBUG, INFO, WARNING, ERROR or CRITICAL"]),
        (["-s", "CONCURRENT_REQUESTS=1.5"], ["CONCURRENT_REQUESTS", "'1.5'"]),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(
    crawl: Scrapy, project: Path, mongodb: Database[Document], words: list[str], named: list[str]
) -> None:
    (project / "unlucky.py").write_text(SPIDER.partition("    @classmethod")[0])
    ran = crawl("unlucky", *words)
    assert ran.returncode == UsageError.exit_code, ran.stderr
    assert [name for name in named if name not in last_of(ran)] == [], ran.stderr
    assert "Traceback" not in ran.stderr
    [found] = mongodb["runs"].find()
    assert (found["state"], found["exit_code"]) == ("failed", 2)
    assert [name for name in named if name not in found["message"]] == []


def test_every_number_and_every_yes_or_no_of_scrapys_settings_is_checked() -> None:
    settings = Settings()
    typed = {name: value for name, value in vars(default_settings).items() if isinstance(value, (bool, int, float))}
    for name in typed:
        settings.set(name, "x", "cmdline")
    with pytest.raises(UsageError) as refused:
        check_values(settings)
    faults = str(refused.value).splitlines()
    assert len(faults) == len(typed) > 60
    wanted = {fault.split(": ")[0]: fault.split(": ")[1] for fault in faults}
    assert "True or False" in wanted["-s ROBOTSTXT_OBEY=x"]
    assert "number" in wanted["-s DOWNLOAD_DELAY=x"]
    check_values(Settings({name: str(value) for name, value in typed.items()}))


def test_without_a_mongodb_there_is_a_message_and_no_run(
    crawl: Scrapy, environment: dict[str, str], free_port: int
) -> None:
    environment["HARVESTER_MONGODB_URI"] = f"mongodb://127.0.0.1:{free_port}"
    ran = crawl("unlucky")
    assert ran.returncode == 3
    assert "MongoDB" in last_of(ran)
    assert f"127.0.0.1:{free_port}" in last_of(ran)


def test_no_private_mongodb_is_begun_to_write_down_that_nothing_was_begun(
    crawl: Scrapy, project: Path, environment: dict[str, str]
) -> None:
    del environment["HARVESTER_MONGODB_URI"]
    assert crawl("unlucky", "-a", "colour=blue").returncode == 2
    assert not (project / ".harvester").exists()


@pytest.mark.parametrize(
    ("program", "imported"),
    [(["-m", "scrapy", "crawl", "bluesky"], "harvester.masking"), (["-m", "harvester", "doctor"], "typer")],
)
def test_ctrl_c_during_the_imports_is_one_line(
    program: list[str], imported: str, project: Path, environment: dict[str, str]
) -> None:
    """Python says what it has imported."""
    environment["SCRAPY_SETTINGS_MODULE"] = "harvester.settings"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", *program],
        cwd=project,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
    ) as process:
        assert process.stderr
        for line in process.stderr:
            if line.rpartition("|")[2].strip() == imported:
                process.send_signal(signal.SIGINT)
                break
        _, log = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, log
    (line,) = (line for line in log.splitlines() if not line.startswith("import time:"))
    assert line.startswith("Stopped ")
