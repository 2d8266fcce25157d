"""Which identity a request goes out as."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from harvester.exceptions import SessionError
from harvester.identities.identity import Identity
from harvester.identities.login_methods import Anonymous, LoginRefused
from harvester.identities.pool import ChainLost, Checkout, IdentityPool, IdentityRequest, Later
from harvester.outcomes import Outcome
from harvester.sites import Site
from harvester.sites.identities import Identities
from tests.identities.without_crawl import fetch, pause


def pool_of(folder: Path, **table: object) -> IdentityPool:
    """A pool of anonymous identities."""
    identities = Identities.model_validate({"kind": "anonymous", "count": 3} | table)
    site = Site(name="county", hosts=("example.org",), identities=identities)
    made = [
        Identity(site, name, folder / f"{name}.json", None, lambda *_: Anonymous(), fetch, pause, lambda _: None)
        for name in identities.names
    ]
    return IdentityPool(made, identities.chain_idle_s, pause)


def names(checkouts: list[Checkout]) -> Counter[str]:
    return Counter(checkout.identity.name for checkout in checkouts)


async def test_load_is_spread_and_bounded(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, at_once=2)
    checkouts = [await pool.take(IdentityRequest()) for _ in range(6)]
    assert names(checkouts) == {"1": 2, "2": 2, "3": 2}
    seventh = asyncio.create_task(pool.take(IdentityRequest()))
    assert not (await asyncio.wait([seventh], timeout=0.1))[0]
    pool.leave(checkouts[3])
    assert (await seventh).identity is checkouts[3].identity


async def test_requests_in_a_window_are_bounded(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, count=1, requests=5, window_s=0.5, at_once=100)
    began = time.time()
    for _ in range(11):
        pool.leave(await pool.take(IdentityRequest()))
    assert time.time() - began >= 1.0


async def test_healthiest_is_chosen_and_a_refused_one_is_avoided(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, at_once=100)
    pool.identities["1"].health.bad(Outcome.BLOCKED, time.time())
    assert names([await pool.take(IdentityRequest()) for _ in range(20)]) == {"2": 10, "3": 10}
    assert names([await pool.take(IdentityRequest(avoid="2")) for _ in range(20)]) == {"3": 20}


async def test_resting_identities_are_left_alone(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, count=2)
    for name in ("1", "2"):
        while not pool.identities[name].health.bad(Outcome.BLOCKED, time.time()):
            pass
    with pytest.raises(Later) as later:
        await pool.take(IdentityRequest(patient=False))
    assert later.value.until > time.time() + 30
    pool.identities["2"].health.rest_until = 0.0
    assert (await pool.take(IdentityRequest())).identity.name == "2"


async def test_chain_stays_with_its_identity(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, at_once=100)
    chains = [f"c{number % 7}" for number in range(70)]
    checkouts = [await pool.take(IdentityRequest(chain)) for chain in chains]
    for chain in set(chains):
        assert len(names([checkout for checkout in checkouts if checkout.chain == chain])) == 1
    assert len(names(checkouts)) == 3


async def test_chain_whose_session_has_ended_is_lost(tmp_path: Path) -> None:
    pool = pool_of(tmp_path)
    checkout = await pool.take(IdentityRequest("c"))
    pool.leave(checkout)
    again = await pool.take(IdentityRequest("c", begun=checkout.session_ref))
    assert again.session_ref == checkout.session_ref
    again.identity.expire(again.session.generation)
    pool.leave(again)
    with pytest.raises(ChainLost):
        await pool.take(IdentityRequest("c", begun=checkout.session_ref))
    assert (await pool.take(IdentityRequest("c"))).session_ref != checkout.session_ref


async def test_serial_jar_belongs_to_one_chain_until_it_ends_or_idles(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, count=1, serial=True, chain_idle_s=3.0)
    first = await pool.take(IdentityRequest("a"))
    pool.leave(first)
    other = asyncio.create_task(pool.take(IdentityRequest("b")))
    assert not (await asyncio.wait([other], timeout=0.3))[0]
    pool.leave(await pool.take(IdentityRequest("a", begun=first.session_ref)), over=True)
    second = await other
    pool.leave(second)
    idle = await pool.take(IdentityRequest("c"))  # b never comes back
    pool.leave(idle)
    with pytest.raises(ChainLost):
        await pool.take(IdentityRequest("b", begun=second.session_ref))


async def test_chain_whose_first_request_is_tried_again_has_its_serial_jar_at_once_whoever_waits_before_it(
    tmp_path: Path,
) -> None:
    pool = pool_of(tmp_path, count=1, serial=True, chain_idle_s=3600.0)
    pool.leave(await pool.take(IdentityRequest("a")))
    other = asyncio.create_task(pool.take(IdentityRequest("b")))
    assert not (await asyncio.wait([other], timeout=0.1))[0]
    pool.leave(await asyncio.wait_for(pool.take(IdentityRequest("a")), 30), over=True)
    assert (await other).chain == "b"


async def test_serial_jar_whose_session_ended_waits_for_no_chain(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, count=1, serial=True, chain_idle_s=300.0)
    first = await pool.take(IdentityRequest("a"))
    pool.leave(first)
    first.identity.expire(first.session.generation)
    second = await asyncio.wait_for(pool.take(IdentityRequest("b")), 240)
    assert second.session_ref != first.session_ref


async def test_jar_of_a_serial_site_is_not_used_by_two_processes_at_once(tmp_path: Path) -> None:
    one, other = pool_of(tmp_path, count=2, serial=True), pool_of(tmp_path, count=2, serial=True)
    checkouts = [await one.take(IdentityRequest()), await other.take(IdentityRequest())]
    assert len(names(checkouts)) == 2
    third = asyncio.create_task(other.take(IdentityRequest()))
    assert not (await asyncio.wait([third], timeout=0.4))[0]
    one.leave(checkouts[0])
    assert (await third).identity.name == checkouts[0].identity.name


async def test_pool_whose_identities_have_all_ended_says_why(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, count=2)
    for identity in pool.identities.values():
        identity.ended = LoginRefused(f"no to {identity.name}.")
    with pytest.raises(SessionError, match=r"no to 1\. no to 2\."):
        await pool.take(IdentityRequest())
