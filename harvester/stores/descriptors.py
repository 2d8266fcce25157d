"""How many files and sockets this process may have open, and how many connections to sites follow from that."""

import contextlib
import logging

import psutil

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

ENOUGH = 65_536
"""More is not asked for: where there is no limit, the number would be no number."""
RESERVE = 24
"""Files that the process opens beside connections to sites: of its servers, staging, look-ups of names."""
LEAST = 2
SMALL = 1024
"""With fewer files, MongoDB gets few connections."""


def allowed() -> int:
    """The limit of now."""
    if resource is None:
        return ENOUGH
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENOUGH if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """As far as this user may."""
    if resource is None or allowed() >= ENOUGH:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def connections(wanted: int) -> int:
    """How many connections to sites there may be at a time: as many as wanted, or as many as files are left for."""
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
