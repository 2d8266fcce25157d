"""The comparison of what a harvest left on disk with the truth, and with what it stored in MongoDB."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harvester.items.bluesky import Follow, Profile, Thread
from harvester.stores.staging import OPEN, SUFFIX, read_segment
from tests.appview.known import Known, tell
from tests.pipelines.records import KINDS

Records = Mapping[str, list[Mapping[str, Any]]]
"""Collection -> its documents."""

LEAST_WORDS = 20
"""A text of so many characters is taken to be nobody else's."""


def compare_pictures(known: Known, records: Records, data: Path) -> list[str]:
    """Whether records name the pictures that they should, and the folder holds these and no others."""
    missing, named = [], set()
    for document in [*records["profiles"], *records["posts"]]:
        paths = document.get("media_paths", {})
        named |= set(paths.values())
        wanted = set(wanted_slots(known, document["_id"])) if known.asked.media else set()
        missing += [f"{slot} of {document['_id']}" for slot in wanted ^ paths.keys()]
    images = data / "images"
    stored = {file.relative_to(images).as_posix() for file in images.rglob("*.jpg")}
    return [
        *tell("pictures that a record lacks, or has and should not", missing),
        *tell("pictures that a record names and that are not in the folder", named - stored),
        *tell("pictures in the folder that no record names", stored - named),
    ]


def wanted_slots(known: Known, key: str) -> Iterator[str]:
    if key in known.harvested:
        yield from {"avatar", "banner"} & (known.accounts[key]["profile"] or {}).keys()
    if key in known.wanted_posts:
        embed = known.wanted_posts[key]["record"].get("embed", {})
        yield from map(str, range(len(embed.get("media", embed).get("images", ()))))


def compare_staging(known: Known, records: Records, data: Path) -> list[str]:
    """Whether all records are staged, all segments finished, and nothing is kept of accounts that opted out.

    Threads are not staged, as they are counted from several answers; nor are stubs. Of an account that opted out
    edges of others' lists may be staged. None of its words stays, be it in what others quote.
    """
    unfinished = [file.name for file in data.rglob(f"*{OPEN}")]
    lines = [json.loads(line) for file in data.rglob(f"*{SUFFIX}") for line in read_segment(file)]
    staged = {(line["kind"], line["key"]) for line in lines}
    kinds = {kind.COLLECTION: kind.KIND for kind in KINDS if kind is not Thread}
    unstaged = [
        f"{kind} {document['_id']}"
        for collection, kind in kinds.items()
        for document in records[collection]
        if (kind, document["_id"]) not in staged and not (kind == Profile.KIND and document["_id"] in known.opted_out)
    ]
    forbidden = [
        f"{line['kind']} {line['key']}"
        for line in lines
        if line.get("did") in known.opted_out and line["kind"] != Follow.KIND
    ]
    stored = [{"kind": name, "key": document["_id"], **document} for name, of in records.items() for document in of]
    words = words_of_those_who_opted_out(known)
    quoting = [
        f"{shown['kind']} {shown['key']}" for shown in [*lines, *stored] if any(w in as_text(shown) for w in words)
    ]
    return [
        *tell("segments unfinished", unfinished),
        *tell("records not staged", unstaged),
        *tell("staged lines of accounts that opted out", forbidden),
        *tell("staged lines and records with words of accounts that opted out", quoting),
    ]


def words_of_those_who_opted_out(known: Known) -> list[str]:
    """What they wrote, and nobody else, as it stands in JSON."""
    theirs, others = set[str](), set[str]()
    for post in known.posts.values():
        (theirs if post["by"] in known.opted_out else others).add(post["record"]["text"])
    for did in known.opted_out:
        theirs.add((known.accounts[did]["profile"] or {}).get("description", ""))
    return [as_text(words)[1:-1] for words in theirs - others if len(words) > LEAST_WORDS]


def as_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
