"""Runs a program for which permissions count, also when root does: `-m tests.bad_input.without_rights PROGRAM ...`."""

import ctypes
import os
import runpy
import sys

DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
"""Root's rights to write and to read whatever it likes, of capabilities(7)."""
_VERSION_3 = 0x20080522


def give_up(*rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for effective_or_permitted in (0, 1):
        for right in rights:
            sets[effective_or_permitted] &= ~(1 << right)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    if os.geteuid() == 0:
        give_up(DAC_OVERRIDE, DAC_READ_SEARCH)
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
