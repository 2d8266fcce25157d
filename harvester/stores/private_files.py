"""Creates folders and files that other users of the machine cannot access, regardless of the umask."""

import os
import stat
from pathlib import Path

OTHERS = 0o077
"""Mode bits that give access to other users."""


def make_closed(folder: Path) -> None:
    """Makes a folder, and its missing parents, for their owner only. Existing folders stay unchanged."""
    for each in reversed((folder, *folder.parents)):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # raises if the path is a file


def forbid_writing(folder: Path) -> None:
    """Forbids others to replace a file in this folder.

    A folder like /tmp is left unchanged, since its sticky bit has the same effect.
    """
    found = folder.stat()
    if os.name == "posix" and found.st_uid == os.geteuid() and found.st_mode & 0o022 and not found.st_mode & 0o1000:
        folder.chmod(stat.S_IMODE(found.st_mode) & ~0o022)


def close_folder(folder: Path) -> None:
    """Makes the folder if it is missing, and closes it to others.

    Raises PermissionError when another user may have made it, or when it cannot be closed.
    """
    make_closed(folder)
    if os.name != "posix":
        return  # the access list of the folder above decides
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise PermissionError(f"{folder} is a link, and what harvester keeps there is not followed through links")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user (uid {found.st_uid})")
    if found.st_mode & OTHERS:
        folder.chmod(0o700)
        if folder.stat().st_mode & OTHERS:
            raise PermissionError(f"{folder} cannot be closed to other users, because its file system has no modes")


def is_closed(path: Path) -> bool:
    """True if the path is a file of this user that others can neither read nor write."""
    found = path.lstat()
    if os.name != "posix":
        return stat.S_ISREG(found.st_mode)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & OTHERS


def open_closed(path: Path, flags: int) -> int:
    """Opens a file and returns the descriptor. A new file is made for its owner only."""
    descriptor = os.open(path, flags | os.O_CREAT, 0o600)
    if os.name == "posix":
        os.fchmod(descriptor, 0o600)
    return descriptor
