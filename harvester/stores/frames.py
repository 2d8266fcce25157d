"""Finds the ends of zstd frames from their headers, so that the torn end of a killed writer is cut without decoding."""

import os
from pathlib import Path
from typing import BinaryIO

from zstandard import ZstdError, frame_header_size, get_frame_parameters

_LONGEST_FRAME_HEADER = 18
_BLOCK_HEADER = 3
_CHECKSUM = 4
_REPEATED_BYTE = 1
"""Type of a block that holds one byte, which is repeated any number of times."""


def cut_torn_frame(path: Path) -> int:
    """Cuts a segment after its last whole frame. Returns the remaining size in bytes."""
    with path.open("r+b") as file:
        whole = end_of_frames(file)
        file.truncate(whole)
        os.fsync(file.fileno())
    return whole


def end_of_frames(file: BinaryIO) -> int:
    """Returns the end of the last whole frame in a file."""
    size = file.seek(0, os.SEEK_END)
    whole = 0
    while (end := _end_of_frame(file, whole)) is not None and end <= size:
        whole = end
    return whole


def _end_of_frame(file: BinaryIO, start: int) -> int | None:
    """Returns the end of the zstd frame at `start` (RFC 8878, 3.1.1); None if it is cut before its last block."""
    file.seek(start)
    head = file.read(_LONGEST_FRAME_HEADER)
    try:
        end = start + frame_header_size(head)
        has_checksum = get_frame_parameters(head).has_checksum
    except ZstdError:
        return None
    last = False
    while not last:
        file.seek(end)
        block = file.read(_BLOCK_HEADER)
        if len(block) < _BLOCK_HEADER:
            return None
        bits = int.from_bytes(block, "little")
        last = bool(bits & 1)
        repeated = bits >> 1 & 3 == _REPEATED_BYTE
        end += _BLOCK_HEADER + (1 if repeated else bits >> 3)
    return end + (_CHECKSUM if has_checksum else 0)
