"""Commands of `scrapy`, which pyproject.toml names to it. In a project without the add-on they do as Scrapy's.

Scrapy imports them before it makes its event loop.
"""

import asyncio
import sys

from harvester.worker import interrupts

if sys.argv[1:2] in (["crawl"], ["import"]):  # other commands, like `scrapy shell`, have their own way with Ctrl-C
    interrupts.end_on_signals()  # before the long imports, until Scrapy handles signals

from scrapy.utils.project import get_project_settings

from harvester.addon import is_brought_into
from harvester.exceptions import UsageError
from harvester.worker.egg import check_imported

if is_brought_into(get_project_settings()):
    try:
        check_imported()
    except UsageError as error:  # Scrapyd shows what is printed here to whoever deploys
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    if sys.platform != "win32":
        import uvloop

        # Scrapy would make asyncio's own loop first and throw it away, which Python complains about at exit.
        asyncio.set_event_loop(uvloop.new_event_loop())
