"""Commands of `scrapy`. Scrapy imports them before it makes its event loop."""

import asyncio
import sys

from harvester.exceptions import UsageError
from harvester.worker import interrupts
from harvester.worker.egg import check_imported

if sys.argv[1:2] in (["crawl"], ["import"]):  # other commands, like `scrapy shell`, have their own way with Ctrl-C
    interrupts.end_on_signals()

try:
    check_imported()
except UsageError as error:  # Scrapyd shows what is printed here to whoever deploys
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)

if sys.platform != "win32":
    import uvloop

    # Scrapy would make asyncio's own loop first and throw it away, which Python complains about at exit.
    asyncio.set_event_loop(uvloop.new_event_loop())
