"""Stages lines from stdin and dies: `python -m tests.privacy.leave_open <root> <kind>`."""

import os
import signal
import sys
from pathlib import Path

from harvester.stores.staging import SegmentWriter

if __name__ == "__main__":
    SegmentWriter(Path(sys.argv[1])).write(sys.argv[2], sys.stdin.buffer.read().splitlines())
    os.kill(os.getpid(), signal.SIGKILL)
