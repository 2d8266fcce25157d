"""A process that stages lines until its file may not grow, then a small one: python -m tests.pipelines.limited FOLDER.

Prints how many lines were written before.
"""

import resource
import signal
import sys
from pathlib import Path
from random import Random

from harvester.exceptions import StorageError
from harvester.stores.staging import SegmentWriter

MOST_BYTES = 100_000


def write_until_full(writer: SegmentWriter) -> int:
    """How many lines were written before StorageError; the line it was raised for is incompressible."""
    for number in range(10_000):
        noise = Random(number).randbytes(3_000).hex()
        try:
            writer.write("post", [b'{"id":%d,"noise":"%b"}' % (number, noise.encode())])
        except StorageError:
            return number
    raise AssertionError("the disk never was full")


def main(folder: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    writer = SegmentWriter(Path(folder))
    print(write_until_full(writer))
    writer.write("post", [b'{"id":"small"}'])
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
