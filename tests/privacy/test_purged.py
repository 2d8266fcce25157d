"""Which addresses are asked although accounts were purged."""

from urllib.parse import quote

import pytest

from harvester.privacy.purged import Purged
from tests.privacy.harvest import ALICE, ALICIA, BOB, uri

PROFILES = "https://x.test/xrpc/app.bsky.actor.getProfiles?actors="


@pytest.fixture
def purged() -> Purged:
    purged = Purged()
    purged.accounts, purged.handles = frozenset([ALICE]), frozenset(["alice.example"])
    return purged


@pytest.mark.parametrize(
    "url",
    [
        *(PROFILES + name for name in (ALICE, quote(ALICE, safe=""), "alice.example", "Alice.Example")),
        f"{PROFILES}{ALICE}&actors=alice.example",
        f"https://x.test/xrpc/app.bsky.graph.getFollows?actor={ALICE}&cursor=3&limit=100",
        f"https://x.test/xrpc/app.bsky.feed.getPostThread?uri={quote(uri(ALICE), safe='')}",
        f"https://plc.test/{ALICE}",
    ],
)
def test_nothing_is_asked_for_a_purged_account_alone(purged: Purged, url: str) -> None:
    assert not purged.allows_address(url)


@pytest.mark.parametrize("other", [BOB, ALICIA, quote(BOB, safe=""), "bob.example", "alice.example.org"])
@pytest.mark.parametrize("name", [ALICE, "alice.example"])
def test_others_that_are_asked_for_together_with_a_purged_account_are_not_lost(
    purged: Purged, name: str, other: str
) -> None:
    assert purged.allows_address(f"{PROFILES}{other}&actors={name}")
    assert purged.allows_address(f"{PROFILES}{name}&actors={other}")
