"""What it means that nothing was lost: the same as undisturbed, the same as the truth, and all of it staged."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harvester.sandbox.posts import SandboxPost
from harvester.stores.staging import iter_records
from tests.pipelines.records import KINDS
from tests.sandbox.process import Sandbox

Records = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Collection -> key -> document."""

UNSTAGED = {"thread"}
"""Counted from several answers, so there is no one answer to stage; its posts are."""


def differences(ours: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """In words, each sort with examples. Empty: none."""
    found = []
    for name in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(name, {}), theirs.get(name, {})
        sorts = {
            "missing": right.keys() - left.keys(),
            "too many": left.keys() - right.keys(),
            "different": {key for key in left.keys() & right.keys() if left[key] != right[key]},
        }
        for sort, keys in sorts.items():
            if keys:
                examples = [f"{key}: {left.get(key)} / {right.get(key)}" for key in sorted(keys)[:3]]
                found.append(f"{name}: {len(keys)} {sort}: {examples}")
    return found


def untruths(site: Sandbox, records: Records, accounts: Mapping[str, tuple[str, str]]) -> list[str]:
    """How a complete harvest from the hub differs from what the network holds."""
    truth = site.truth
    stages = {"visible": "posts_collected", "skipped": "skipped"}
    posts = {uri: (post["text"], post["cid"]) for uri, post in records["posts"].items()}
    shown = truth.posts | truth.reposted
    roots = {
        uri: site.truth.tree(root)
        for uri in records["threads"]
        if isinstance(root := site.world.post_of_uri(uri), SandboxPost)
    }
    return differences(
        {
            "accounts": {did: stage for did, (stage, _) in accounts.items()},
            "profiles": dict.fromkeys(records["profiles"]),
            "follows": dict.fromkeys(records["follows"]),
            "posts": posts,
            "reposts": dict.fromkeys(records["reposts"]),
            "threads": {uri: tree for uri, tree in roots.items() if len(tree) > 1},
        },
        {
            "accounts": {did: stages[account.state] for did, account in truth.accounts.items()},
            "profiles": dict.fromkeys(truth.accounts),
            "follows": dict.fromkeys(f"{did} {subject}" for did, subject in truth.follows),
            "posts": {uri: (post.text, post.cid) for uri, post in shown.items()},
            "reposts": dict.fromkeys(f"{did} {subject}" for did, subject in truth.reposts),
            "threads": truth.threads,
        },
    )


def unstaged(data_dir: Path, records: Records, accounts: Mapping[str, tuple[str, str]]) -> list[str]:
    """Stored records without a staged line, as collection and how many."""
    skipped = {did for did, (stage, _) in accounts.items() if stage == "skipped"}
    found = []
    for kind in KINDS:
        staged = {line["key"] for line in iter_records(data_dir, "bluesky", kind.KIND)}
        left = records[kind.COLLECTION].keys() - staged - (skipped if kind.KIND == "profile" else set())
        if left and kind.KIND not in UNSTAGED:
            found.append(f"{kind.COLLECTION}: {len(left)} not staged, such as {min(left)}")
    return found


def unpictured(data_dir: Path, records: Records) -> list[str]:
    """Pictures that a record says are stored, and that are not."""
    paths = [path for of_kind in records.values() for record in of_kind.values() for path in _paths(record)]
    return [path for path in paths if not (data_dir / "images" / path).is_file()]


def _paths(record: Mapping[str, Any]) -> list[str]:
    return [*record.get("media_paths", {}).values()]
