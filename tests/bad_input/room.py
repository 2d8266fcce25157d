"""A folder with little room: a disk of its own where one may be mounted."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def little_room(folder: Path) -> Iterator[tuple[tuple[str, ...], Callable[[], object]]]:
    """60 kB in the folder, as a file system of its own; without the right to mount one, a limit on each file's size.

    Yields words to put before a command, and what makes room.
    """
    mount = ("mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", str(folder))
    if os.name != "posix":
        pytest.skip("mounts and limits of POSIX")
    elif sys.platform != "linux" or os.geteuid() or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        yield ("sh", "-c", 'ulimit -f 4; exec "$@"', "sh"), lambda: None
    else:
        try:
            yield (), lambda: subprocess.run(["mount", "-o", "remount,size=20m", folder], check=True)
        finally:
            subprocess.run(["umount", folder], check=True)
