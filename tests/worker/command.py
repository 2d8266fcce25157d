"""`harvester`, less patient: `python -m tests.worker.command worker ...`."""

import os

from harvester.cli import main
from harvester.worker import process, show, supervisor

if __name__ == "__main__":
    supervisor.FIRST_BACKOFF_SECONDS, supervisor.MOST_BACKOFF_SECONDS = 0.1, 0.2
    supervisor.SPARE_DEATHS = 1
    supervisor.LOOK_SECONDS = 0.2
    show.LINES_SECONDS = 1.0
    process.AT_ONCE_SECONDS = float(os.environ.get("AT_ONCE_SECONDS", "240"))
    main()
