"""`harvester`, less patient: `python -m tests.worker.command ...`. Workers are forked, unless FROM_NOTHING says no."""

import os
import sys
from subprocess import DEVNULL, PIPE
from types import SimpleNamespace
from typing import Any

from harvester.cli import main
from harvester.worker import planner, process, show, supervisor
from tests.forking import Child, Children


def fork_workers() -> None:
    children = Children()

    def begin(command: list[str], *, stderr: int | None, env: dict[str, str], **others: Any) -> Child:
        assert command[:2] == [sys.executable, "-m"]
        assert others == {"stdin": DEVNULL, "stdout": PIPE, "start_new_session": True}
        return children.begin(*command[2:], env=env, log=stderr == PIPE)

    vars(process)["subprocess"] = SimpleNamespace(Popen=begin, DEVNULL=DEVNULL, PIPE=PIPE)


if __name__ == "__main__":
    if "FROM_NOTHING" not in os.environ:
        fork_workers()
    supervisor.FIRST_BACKOFF_SECONDS, supervisor.MOST_BACKOFF_SECONDS = 0.1, 0.2
    supervisor.SPARE_DEATHS = 1
    supervisor.LOOK_SECONDS = 0.5
    show.LINES_SECONDS = 1.0
    process.AT_ONCE_SECONDS = float(os.environ.get("AT_ONCE_SECONDS", "240"))
    planner.TURN_S = float(os.environ.get("TURN_S", "60"))
    main()
