"""Commands of `scrapy`. Scrapy imports them before it makes its event loop."""

import asyncio
import sys

from harvester.exceptions import UsageError
from harvester.worker.egg import check_imported

try:
    check_imported()
except UsageError as error:  # Scrapyd shows what is printed here to whoever deploys
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)

if sys.platform != "win32":
    import uvloop

    # Scrapy would make asyncio's own loop first and throw it away, which Python complains about at exit.
    asyncio.set_event_loop(uvloop.new_event_loop())
