"""The same spider as tests/crawling.py, by Scrapy alone: its defaults, none of harvester's components.

`python -m tests.politeness.throttle.plain` with a Plan as JSON. It prints nothing; what counts is what the site saw.
"""

import sys

import msgspec
from scrapy.crawler import AsyncCrawlerProcess

from tests.crawling import Asker, Plan


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    process = AsyncCrawlerProcess({"REMOTE_CONTROL_ENABLED": False, "TELNETCONSOLE_ENABLED": False} | plan.settings)
    process.crawl(Asker, plan=plan, results=[])
    process.start()


if __name__ == "__main__":
    main()
