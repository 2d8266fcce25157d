"""A process that stages lines until it is killed: python -m tests.pipelines.writer FOLDER NAME.

Prints the number of each batch when it is written. Batch n of NAME has n % 7 + 1 lines, most of them small.
"""

import sys
from pathlib import Path
from random import Random

import msgspec

from harvester.stores.staging import SegmentWriter, recover


def batch(name: str, number: int) -> list[bytes]:
    """The lines of a batch, the same each time it is asked for."""
    size = 300_000 if number % 11 == 0 else 40
    noise = Random(number).randbytes(size).hex()
    return [msgspec.json.encode({"id": f"{name}-{number}-{line}", "noise": noise}) for line in range(number % 7 + 1)]


def main(folder: str, name: str) -> None:
    recover(Path(folder))
    writer = SegmentWriter(Path(folder))
    number = 0
    while True:
        writer.write("post" if number % 3 else "like", batch(name, number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
