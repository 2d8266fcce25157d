"""`make suites SUITES=FOLDER`: runs each suite whose folder is in FOLDER, and prints its numbers.

The folders are named as their repositories are: JSON-Schema-Test-Suite, JSONTestSuite, jmespath.test, robotstxt,
atproto-interop-tests, feedparser. Nothing of them is part of this project.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.suites.atproto_suite import atproto
from tests.suites.feed_suite import feedparser_corpus
from tests.suites.json_suites import jmespath, json_schema, json_texts, schemas_taken
from tests.suites.result import Result
from tests.suites.robots_suite import robotstxt

MOST_SHOWN = 20
"""Cases of a part that are named."""

SUITES: dict[str, tuple[Callable[[Path], Iterator[Result]], ...]] = {
    "JSON-Schema-Test-Suite": (json_schema, schemas_taken),
    "JSONTestSuite": (json_texts,),
    "jmespath.test": (jmespath,),
    "robotstxt": (robotstxt,),
    "atproto-interop-tests": (atproto,),
    "feedparser": (feedparser_corpus,),
}


def main(folder: Path, is_long: bool) -> int:
    """Returns 1 if a case that is required went wrong, or no suite is there."""
    results: list[Result] = []
    for name, parts in SUITES.items():
        if not (folder / name).is_dir():
            print(f"{name} is not in {folder}: left out", file=sys.stderr)
            continue
        for part in parts:
            results += part(folder / name)
    print("| Suite | Part | Right | Of | Otherwise on purpose | Wrong |\n|---|---|---:|---:|---:|---:|")
    for each in results:
        numbers = (each.right, each.of, len(each.chosen), len(each.wrong))
        print(f"| {each.suite} | {each.part} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    for each in results:
        for what, names in (("wrong", each.wrong), ("on purpose", each.chosen)):
            for name in names if is_long else names[:MOST_SHOWN]:
                print(f"{each.suite}, {each.part}, {what}: {name}", file=sys.stderr)
    return 1 if not results or any(each.has_failed for each in results) else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) < 2:
        sys.exit("Give the folder in which the suites lie: make suites SUITES=FOLDER")
    sys.exit(main(Path(sys.argv[1]), "--all" in sys.argv))
