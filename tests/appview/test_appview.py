"""A harvest from the real AppView and PDS is complete and correct, whichever way posts are collected.

APPVIEW_INFO=<file> uses a stack that is already up: JSON with `appview`, `pds`, `plc` and `truth`, as
`python -m tests.appview.stack up` prints it. Without it, each of APPVIEW_SEEDS (default 1,2,3) has a stack of its own.
"""

import copy
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from tests.appview.changing import declaring, deleting, labelling
from tests.appview.compare import compare
from tests.appview.known import ALWAYS, Asked
from tests.appview.stack import running_stack
from tests.appview.verify import verify
from tests.crash.harvest import Harvest, documents, stored
from tests.crash.nothing_lost import differences

GIVEN = os.environ.get("APPVIEW_INFO")
SEEDS = ["given"] if GIVEN else os.environ.get("APPVIEW_SEEDS", "1,2,3").split(",")
HISTORIES = ["appview", "records", "car"]
TIMES = {
    "past": (datetime(2024, 9, 1, tzinfo=UTC), datetime(2025, 5, 1, tzinfo=UTC)),
    "future": (datetime(2025, 6, 1, tzinfo=UTC), datetime(2090, 1, 1, tzinfo=UTC)),
}
CRAWL_TIMEOUT_SECONDS = 1200

with_one_seed = pytest.mark.parametrize("stack", SEEDS[:1], indirect=True, scope="module")

pytestmark = [pytest.mark.appview, pytest.mark.timeout(4 * CRAWL_TIMEOUT_SECONDS + 600)]

Harvesting = Callable[[Asked], Harvest]


class Stack(NamedTuple):
    """Addresses of a stack that runs, and what it was filled with."""

    addresses: dict[str, Any]
    truth: dict[str, Any]

    @property
    def url(self) -> str:
        return str(self.addresses["appview"])

    def handle(self, _: int) -> str:
        """The accounts to begin with."""
        cases = self.truth["cases"]
        return f"{cases['hub']},{cases['followsEveryone']}"


@pytest.fixture(scope="module", params=SEEDS)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with ExitStack() as running:
        addresses = (
            json.loads(Path(GIVEN).read_text())
            if GIVEN
            else running.enter_context(running_stack({"SEED_RANDOM": request.param}))
        )
        yield Stack(addresses, json.loads(Path(addresses["truth"]).read_text()))


@pytest.fixture
def harvest(stack: Stack, mongodb: Database[dict[str, Any]], mongodb_uri: str, tmp_path: Path) -> Harvesting:
    """A command, not yet started."""

    def made(asked: Asked) -> Harvest:
        collect = ["graph", "profiles", "posts", *(["threads"] * asked.threads), *(["lists"] * asked.lists)]
        wishes = {"depth": "3", "collect": ",".join(collect), "history": asked.history}
        wishes |= {"media": "yes" if asked.media else "no"}
        if (asked.since, asked.until) != ALWAYS:
            wishes |= {"since": asked.since.isoformat(), "until": asked.until.isoformat()}
        variables = {"HARVESTER_PLC_URL": stack.addresses["plc"], "HARVESTER_LEASE_SECONDS": "5"}
        return Harvest(stack, tmp_path, mongodb_uri, mongodb.name, variables, **wishes)

    return made


def run(harvest: Harvest) -> None:
    """To its end."""
    harvest.start()
    assert harvest.wait(CRAWL_TIMEOUT_SECONDS) == 0, harvest.said[-5000:]


def test_the_truth_is_what_the_appview_shows(stack: Stack) -> None:
    assert verify(stack.addresses) == []


@pytest.mark.parametrize("history", HISTORIES)
def test_a_harvest_finds_all_that_is_visible_and_nothing_else(
    history: str, stack: Stack, harvest: Harvesting, mongodb: Database[dict[str, Any]], tmp_path: Path
) -> None:
    asked = Asked(history, media=history == "records")
    run(harvest(asked))
    assert compare(stack.truth, mongodb, tmp_path / "data", asked) == []


@with_one_seed
@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("history", HISTORIES)
def test_since_and_until_mean_the_same_whatever_way_posts_come(
    history: str,
    time: tuple[datetime, datetime],
    stack: Stack,
    harvest: Harvesting,
    mongodb: Database[dict[str, Any]],
    tmp_path: Path,
) -> None:
    """Also for posts of older days than their keys, and of days to come, which are of the day when they were seen."""
    since, until = time
    asked = Asked(history, threads=False, lists=False, since=since, until=until)
    run(harvest(asked))
    assert compare(stack.truth, mongodb, tmp_path / "data", asked) == []


@with_one_seed
def test_a_harvest_that_is_killed_again_and_again_is_complete(
    stack: Stack, harvest: Harvesting, mongodb: Database[dict[str, Any]], tmp_path: Path
) -> None:
    command = harvest(asked := Asked(media=True))
    for threshold in (len(stack.truth["accounts"]), len(stack.truth["posts"])):
        command.start()
        assert command.running_until(partial(has_stored, mongodb, threshold)), command.said[-5000:]
        assert command.end(signal.SIGKILL) == -signal.SIGKILL
    run(command)
    assert compare(stack.truth, mongodb, tmp_path / "data", asked) == []


def has_stored(database: Database[dict[str, Any]], least: int) -> bool:
    return documents(database) >= least


@with_one_seed
def test_a_later_harvest_finds_what_changed_and_takes_back_what_was_kept_of_accounts_that_opted_out_since(
    stack: Stack, harvest: Harvesting, mongodb: Database[dict[str, Any]], tmp_path: Path
) -> None:
    command = harvest(asked := Asked(media=True))
    run(command)
    assert compare(stack.truth, mongodb, tmp_path / "data", asked) == []

    first = stored(mongodb)
    run(command)
    assert compare(stack.truth, mongodb, tmp_path / "data", asked) == []
    assert differences(stored(mongodb), first) == []

    truth = copy.deepcopy(stack.truth)
    one, another = [account for account in truth["accounts"] if account["kind"] == "author"][5:7]
    lonely = next(post for post in truth["posts"] if is_lonely(truth, post))
    author = next(account for account in truth["accounts"] if account["did"] == lonely["by"])
    one |= {"optOut": "no-unauthenticated", "late": True}
    another |= {"optOut": "intents", "late": True}
    author["shown"]["postsCount"] -= 1
    lonely |= {"visible": False, "gone": True}
    with ExitStack() as changes:
        changes.enter_context(labelling(stack.addresses, one))
        changes.enter_context(declaring(stack.addresses, another))
        changes.enter_context(deleting(stack.addresses, author, lonely["uri"]))
        run(command)
        assert compare(truth, mongodb, tmp_path / "data", asked) == []

    for _ in range(2):  # the first may read quotes before it hears that their author allows it again
        run(command)
    assert compare(stack.truth, mongodb, tmp_path / "data", asked) == []


def is_lonely(truth: dict[str, Any], post: dict[str, Any]) -> bool:
    """Whether a post is seen by its author's list alone, and has no pictures."""
    named = {*truth["cases"].values(), *(edge["subject"] for edge in [*truth["likes"], *truth["reposts"]])}
    named |= {other.get(name) for other in truth["posts"] for name in ("parent", "quotes")}
    return post["visible"] and "parent" not in post and "embed" not in post["record"] and post["uri"] not in named
