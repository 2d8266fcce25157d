"""Limits the number of open files and sockets of this process, and thereby the number of connections to sites."""

import contextlib
import logging

import psutil

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

ENOUGH = 65_536
"""Maximum limit to request. An unlimited value would not be a number."""
RESERVE = 24
"""Number of files that the process opens beside connections to sites: for its servers, staging, DNS look-ups."""
LEAST = 2
SMALL = 1024
"""Limit of open files below which MongoDB gets few connections."""


def allowed() -> int:
    """Returns the current limit of open files."""
    if resource is None:
        return ENOUGH
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENOUGH if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raises the limit of open files as far as this user may."""
    if resource is None or allowed() >= ENOUGH:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def connections(wanted: int) -> int:
    """Returns the maximum number of simultaneous connections to sites: `wanted`, or fewer if too few files are left."""
    if resource is None:
        return wanted
    room = max(LEAST, allowed() - psutil.Process().num_fds() - RESERVE)
    if room >= wanted:
        return wanted
    logger.warning(
        "This process may have %d files open: %d connections are made at a time, not %d. For more, raise `ulimit -n`",
        allowed(), room, wanted,
    )  # fmt: skip
    return room
