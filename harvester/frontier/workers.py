"""Names of workers, which contain machine and process."""

import hashlib
import os
import secrets
import socket
from functools import cache
from pathlib import Path

import psutil


def own_name() -> str:
    """Returns a new name at each call."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}:{_machine()}"


def is_gone(name: str) -> bool:
    """Returns True if the worker was a process of this machine that has ended. False for workers of other machines."""
    _, _, rest = name.partition(":")
    pid, _, rest = rest.partition(":")
    _, _, machine = rest.partition(":")
    if not machine or machine != _machine() or not pid.isdecimal():
        return False
    try:
        return psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


@cache
def _machine() -> str:
    """Returns an id that processes share if they see each other: same container, same boot. Empty: unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux
        return ""
    return hashlib.sha256(f"{boot}{namespace}".encode()).hexdigest()[:8]
