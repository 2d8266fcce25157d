"""Where a harvest begins: a file, standard input, and everything that names an account."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest, fates
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]


def test_a_file_of_seeds_may_name_accounts_in_every_way_and_hold_lines_that_are_none(
    harvest: Make, site: Sandbox, mongodb: Records, tmp_path: Path
) -> None:
    renamed = site.network.former_handle(15)
    lines = {
        "# my favourites": None,
        "": None,
        site.handle(0).upper(): "done",
        f"@{site.handle(20)}  # with a comment": "done",
        site.did(21): None,
        f"https://bsky.app/profile/{site.handle(22)}": "done",
        f"https://bsky.app/profile/{site.did(23)}/post/3kabc": None,
        f"at://{site.did(24)}": None,
        site.handle(24): "done",
        site.handle("renamed"): "done",
        renamed: "failed",
        "nobody.sandbox.test": "failed",
        "not a handle": None,
        site.did("deactivated"): None,
    }
    (tmp_path / "accounts.txt").write_text("\r\n".join(lines), "utf-8-sig")
    command = harvest(seeds="@accounts.txt", depth="0", collect="profiles")
    assert command.run() == 0, command.said
    seeds = mongodb.job_items.find({"kind": "seed"})
    assert sorted(row["state"] for row in seeds) == sorted(filter(None, lines.values())), "a handle is to be resolved"
    wanted = [site.did(name) for name in (0, 20, 21, 22, 23, 24, "renamed")]
    assert {row["_id"] for row in mongodb.profiles.find()} == set(wanted)
    gone = site.did("deactivated")
    ended = dict.fromkeys(wanted, ("profile_collected", "")) | {gone: ("failed", "gone: AccountDeactivated")}
    assert fates(mongodb)["account"] == ended
    said = command.said
    assert re.search(r"Line 13 .*'not a handle'", said)
    for handle in (renamed, "nobody.sandbox.test"):
        assert re.search(rf" {handle} .*: ", said)
    assert "seeds rejected 3" in " ".join(said.split())


def test_seeds_come_by_standard_input(harvest: Make, site: Sandbox, mongodb: Records) -> None:
    command = harvest(seeds="-", depth="0", collect="profiles")
    given = f"{site.handle(20)}\n{site.did(21)}\n".encode()
    read, write = os.pipe()
    try:
        os.write(write, given)
        command.start(stdin=read)
    finally:
        os.close(read)
        os.close(write)
    assert command.wait() == 0, command.said
    assert {row["_id"] for row in mongodb.profiles.find()} == {site.did(20), site.did(21)}
