"""A project's own Spidermon suites run once, beside harvester's, and the verdict is of all monitors."""

import pytest
from scrapy.utils.test import get_crawler
from spidermon import MonitorSuite

from harvester.monitors.extension import RunMonitoring
from harvester.monitors.suites import RunMonitors
from tests.crawling import Answer, Site
from tests.docs.conftest import House, house
from tests.endings.test_as_scrapy import FASTER
from tests.numbers import numbers_of

__all__ = ["house"]
OF_PROJECT = "Monitors of the project"
SPIDER = """
from scrapy import Spider


class Shop(Spider):
    name = "shop"
    start_urls = ["SITE/first"]

    def parse(self, response):
        yield {"page": response.text}
"""
SUITES = """
from pathlib import Path

from spidermon import Monitor, MonitorSuite
from spidermon.core.actions import Action


class Note(Action):
    def run_action(self):
        with Path("notes").open("a") as notes:
            notes.write(f"{type(self).__name__}\\n")


class Opened(Note):
    pass


class Closed(Note):
    pass


class Stopped(Note):
    pass


class PageMonitor(Monitor):
    def test_pages_came(self):
        self.assertGreater(self.data.stats.get("response_received_count", 0), 0)

    def test_pages_are_many(self):
        self.assertGreater(self.data.stats.get("response_received_count", 0), LEAST)


class Open(MonitorSuite):
    monitors_finished_actions = [Opened]


class Close(MonitorSuite):
    monitors = [PageMonitor]
    monitors_finished_actions = [Closed]


class Stop(MonitorSuite):
    monitors_finished_actions = [Stopped]
"""
SETTINGS = """
SPIDER_MODULES = ["shop"]
SPIDERMON_ENABLED = True
EXTENSIONS = {**globals().get("EXTENSIONS", {}), "spidermon.contrib.scrapy.extensions.Spidermon": 500}
SPIDERMON_SPIDER_OPEN_MONITORS = ["suites.Open"]
SPIDERMON_SPIDER_CLOSE_MONITORS = ["suites.Close"]
SPIDERMON_ENGINE_STOP_MONITORS = ["suites.Stop"]
SPIDERMON_ENGINE_STOP_EXPRESSION_MONITORS = [
    {"name": "Expressions", "tests": [{"name": "reason", "expression": "stats['finish_reason'] == 'finished'"}]}
]
SPIDERMON_ADD_FIELD_COVERAGE = True
"""


def test_a_project_that_names_the_suite_of_harvester_has_it_once() -> None:
    named = {"SPIDERMON_ENABLED": True, "SPIDERMON_ENGINE_STOP_MONITORS": [RunMonitors, MonitorSuite]}
    monitoring = RunMonitoring.from_crawler(get_crawler(settings_dict=named))
    assert [type(suite) for suite in monitoring.of_project.engine_stopped_suites] == [MonitorSuite]


@pytest.mark.parametrize(("least", "code"), [(1, 0), (10, 6)])
async def test_suites_of_a_project_run_once_and_their_verdict_counts(least: int, code: int, house: House) -> None:
    async with Site({"/first": [Answer()]}) as site:
        files = {
            "shop.py": SPIDER.replace("SITE", site.url),
            "suites.py": SUITES.replace("LEAST", str(least)),
            "ours.py": f"from harvester.settings import *\n{FASTER}{SETTINGS}",
            "plain.py": SETTINGS,
            "scrapy.cfg": "[settings]\ndefault = ours\nplain = plain\n",
        }
        for name, text in files.items():
            (house.folder / name).write_text(text)
        plain = house._replace(environment=house.environment | {"SCRAPY_PROJECT": "plain"})
        assert (await plain.run("scrapy crawl shop")).code == 0
        notes = house.folder / "notes"
        of_scrapy = notes.read_text()
        notes.unlink()
        ended = await house.run("harvester crawl shop")
    assert ended.code == code, ended.log
    assert notes.read_text() == of_scrapy == "Opened\nClosed\nStopped\n"
    [run] = house.database["runs"].find()
    failed = {each["monitor"]: each["message"] for each in run["failures"]}
    if code:
        assert (run["verdict"], [*failed]) == ("failed", [OF_PROJECT])
        message = failed.popitem()[1]
        assert (numbers_of(message)[:2], "PageMonitor/test_pages_are_many" in message) == ([2, 3], True)
    else:
        assert (run["verdict"], failed) == ("passed", {})
