"""The crawl of tests/frontier/crawl.py, killed when its first request is done and the frontier does not know it yet."""

import os
import signal
from typing import Any

from harvester.frontier.client import FrontierClient
from tests.frontier.crawl import main


def kill(*args: Any, **kwargs: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    FrontierClient.finish = kill  # type: ignore[method-assign]
    main()
