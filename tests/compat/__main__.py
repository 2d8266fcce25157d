"""Tests of Scrapy and scrapy-redis, run against harvester: `python -m tests.compat [scrapy|scrapy-redis]`.

They come from the sdists, which are downloaded. What passes there must pass here, but for what is listed with a reason.
"""

import sys
from collections.abc import Callable

from tests.compat import scrapy_redis_tests, scrapy_tests

SUITES: dict[str, Callable[[], bool]] = {"scrapy-redis": scrapy_redis_tests.hold, "scrapy": scrapy_tests.hold}


def main() -> int:
    """Returns 1 when a test ended otherwise than it should."""
    wanted = [name for name in sys.argv[1:] if name in SUITES] or list(SUITES)
    held = [SUITES[name]() for name in wanted]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
