"""Commands of `scrapy`. Scrapy imports them before it makes its event loop."""

import asyncio
import sys

if sys.platform != "win32":
    import uvloop

    # Scrapy would make asyncio's own loop first and throw it away, which Python complains about at exit.
    asyncio.set_event_loop(uvloop.new_event_loop())
