"""Which accounts are handed out, in which order, how many, and at what price."""

import random

import pytest
from pymongo.database import Database

from harvester.frontier.changes import Ended, Progress, SeedEnded
from harvester.frontier.ledger import CrawlLedger
from tests.ledger.conftest import LAST_DEPTH, Document, Runs, collected, found, opened


async def names(ledger: CrawlLedger, most: int = 100) -> list[str]:
    return sorted(account.did.removeprefix("did:plc:") for account in await ledger.next_accounts(most))


async def test_an_account_waits_while_an_unfinished_one_could_show_it_to_be_nearer(runs: Runs) -> None:
    ledger = await runs.next()
    await ledger.confirm([found("ann", "bob")])
    assert await names(ledger) == ["ann", "bob"]
    await ledger.confirm([collected("ann", "follows"), collected("bob", "follows")])
    await ledger.next_open(10)
    await ledger.confirm([found("near", depth=1), Progress("did:plc:ann", "follows", 0, None)])
    assert await names(ledger) == ["near"]
    await ledger.confirm([collected("near", "follows")])
    await ledger.next_open(10)
    await ledger.confirm([found("far", depth=2), Progress("did:plc:near", "follows", 0, None)])
    assert await names(ledger) == [], "bob's list may still show it at depth 1"
    await ledger.confirm([found("far", depth=1), Progress("did:plc:bob", "follows", 0, None)])
    (far,) = await ledger.next_accounts(10)
    assert (far.did, far.depth) == ("did:plc:far", 1)


async def test_an_account_waits_while_a_seed_could_turn_out_to_be_it(runs: Runs) -> None:
    ledger = await runs.next()
    await ledger.add_seeds(["ann.test", "bob.test"])
    await ledger.next_seeds(10)
    await ledger.confirm([SeedEnded("ann.test", "did:plc:ann")])
    assert await names(ledger) == ["ann"]
    await ledger.confirm([collected("ann", "follows")])
    await ledger.next_open(10)
    await ledger.confirm([found("bob", depth=1), Progress("did:plc:ann", "follows", 0, None)])
    assert await names(ledger) == []
    await ledger.confirm([SeedEnded("bob.test", "did:plc:bob")])
    (bob,) = await ledger.next_accounts(10)
    assert (bob.did, bob.depth) == ("did:plc:bob", 0)


@pytest.mark.parametrize("seed", range(3))
async def test_every_account_is_found_at_its_smallest_depth_whatever_the_order(runs: Runs, seed: int) -> None:
    dice = random.Random(seed)
    follows = {n: dice.sample(range(60), 4) for n in range(60)}
    expected = depths(follows, start=0)
    ledger = await runs.next()
    await ledger.confirm([found("0")])
    asked: list[str] = []
    reading: list[tuple[str, int]] = []
    read_at: dict[int, int] = {}
    while True:
        asked += await names(ledger, 5)
        reading += [(account.did.removeprefix("did:plc:"), account.depth) for account in await ledger.next_open(5)]
        if not asked and not reading:
            break
        if asked and dice.random() < 0.5:
            await ledger.confirm([collected(asked.pop(dice.randrange(len(asked))), "follows")])
        elif reading:
            name, depth = reading.pop(dice.randrange(len(reading)))
            read_at[int(name)] = depth
            members = found(*map(str, follows[int(name)]), depth=depth + 1)
            await ledger.confirm([members, Progress(f"did:plc:{name}", "follows", 0, None)])
    assert read_at == expected


def depths(follows: dict[int, list[int]], start: int) -> dict[int, int]:
    found, queue = {start: 0}, [start]
    for number in queue:
        new = [other for other in dict.fromkeys(follows[number]) if other not in found]
        found |= dict.fromkeys(new, found[number] + 1)
        queue += new
    return found


async def test_no_more_than_max_accounts_are_ever_handed_out(runs: Runs) -> None:
    handed: set[str] = set()
    for _ in range(3):
        ledger = await runs.next(max_accounts=10)
        await ledger.confirm([found(*map(str, range(30)))])
        assert ledger.full()
        batch = await names(ledger, 4)
        handed |= {*batch}
        await ledger.confirm([collected(name, "feed") for name in batch[:2]])
        await ledger.next_open(10)
        await ledger.confirm([Ended(f"did:plc:{name}", "failed", "gone") for name in batch[2:3]])
        assert len(handed) <= 10
    ledger = await runs.next(max_accounts=10)
    while batch := await names(ledger, 4):
        await ledger.confirm([collected(name) for name in batch])
        handed |= {*batch}
    assert len(handed) == 10
    await ledger.skip_rest()
    assert sorted((await runs.states(ledger)).values()).count(("closed", "skipped")) == 20


async def test_accounts_whose_profiles_are_being_read_count_towards_max_accounts(runs: Runs) -> None:
    ledger = await runs.next(max_accounts=10)
    await ledger.confirm([found(*map(str, range(30)))])
    assert [len(await names(ledger, 4)) for _ in range(4)] == [4, 4, 2, 0]


async def test_what_max_accounts_left_out_does_not_count_when_a_failed_one_is_tried_again(runs: Runs) -> None:
    ledger = await runs.next(max_accounts=2)
    await ledger.confirm([found(*map(str, range(9)))])
    first, second = await names(ledger)
    await ledger.confirm([collected(first), Ended(f"did:plc:{second}", "failed", "timeout: late", later=True)])
    await ledger.skip_rest()
    assert not await ledger.close()
    ledger = await runs.next(max_accounts=2)
    assert await names(ledger) == [second]
    await ledger.confirm([collected(second)])
    assert await names(ledger) == []
    assert await ledger.close()


async def test_without_max_accounts_nothing_is_left_out(runs: Runs) -> None:
    ledger = await runs.next()
    await ledger.confirm([found("late")])
    await ledger.skip_rest()
    assert await runs.states(ledger) == {"did:plc:late": ("waiting", "queued")}


async def test_an_account_that_ends_while_others_are_looked_for_is_not_handed_out_again(runs: Runs) -> None:
    """The query may have seen it unfinished, though it is out of the ledger's hands when the answer comes."""
    ledger = await runs.next()
    await opened(ledger, "ann", "feed")

    async def meanwhile() -> None:
        await ledger.confirm([Progress("did:plc:ann", "feed", 0, None)])

    runs.meanwhile = meanwhile
    assert await ledger.next_open(10) == []
    assert not ledger.busy()


async def test_ten_thousand_accounts_are_handed_out_by_queries_that_look_at_few(
    runs: Runs, mongodb: Database[Document]
) -> None:
    ledger = await runs.next()
    everybody = {str(number) for number in range(10_000)}
    await ledger.confirm([found(*everybody)])
    mongodb.create_collection("system.profile", capped=True, size=16 * 1024 * 1024)
    mongodb.command("profile", 2, filter={"op": "query"})
    handed: set[str] = set()
    rounds = 0
    while batch := await names(ledger):
        rounds += 1
        handed |= {*batch}
        await ledger.confirm([collected(name, "feed") if name.endswith("7") else collected(name) for name in batch])
        reading = await ledger.next_open(40)
        await ledger.confirm([Progress(account.did, "feed", 0, None) for account in reading])
    mongodb.command("profile", 0)
    assert handed == everybody
    queries = list(mongodb["system.profile"].find({"op": "query"}))
    assert rounds < len(queries) < rounds * 5
    assert max(query["docsExamined"] for query in queries) < 300
    assert max(query["keysExamined"] for query in queries) < 300


async def test_lists_read_at_the_last_depth_are_read_again_when_their_account_turns_out_to_be_nearer(
    runs: Runs,
) -> None:
    """Ann's list fails; Cid is found at the last depth, where members count no more. In the next run Ann shows Cid."""
    ledger = await runs.next()
    await opened(ledger, "ann", "follows")
    await ledger.confirm([Progress("did:plc:ann", "follows", 0, None, error="timeout: late", later=True)])
    await opened(ledger, "cid", "follows", "feed", depth=LAST_DEPTH)
    await ledger.confirm([Progress("did:plc:cid", chain, 0, None) for chain in ("follows", "feed")])
    assert await ledger.reopen_nearer() == 0
    ledger = await runs.next()
    assert [account.todo for account in await ledger.next_open(10)] == [{"follows": None}]
    await ledger.confirm([found("cid", depth=1), Progress("did:plc:ann", "follows", 0, None)])
    assert await ledger.reopen_nearer() == 1
    (cid,) = await ledger.next_open(10)
    assert (cid.did, cid.depth, cid.todo) == ("did:plc:cid", 1, {"follows": None})
    await ledger.confirm([Progress("did:plc:cid", "follows", 0, None)])
    assert (await runs.states(ledger))["did:plc:cid"] == ("closed", "posts_collected")
    assert await ledger.reopen_nearer() == 0
