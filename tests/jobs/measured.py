"""`python -m tests.jobs.measured FILE ...`: the command `harvester ...`, which leaves its peak memory in kB in FILE."""

import sys
from pathlib import Path

from harvester.cli import main


def peak_kb() -> int:
    """The most memory that this process has had."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    told = Path(sys.argv.pop(1))
    try:
        main()
    finally:
        told.write_text(str(peak_kb()))
