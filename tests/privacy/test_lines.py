"""What a purge makes of one staged or rejected line."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from harvester.privacy import opt_outs
from harvester.privacy.purge import without
from tests.privacy import harvest
from tests.privacy.harvest import ALICE, ALICIA, BOB


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    "gone",
    [
        line(kind="profile", key=ALICE, did=ALICE, raw={}),
        line(kind="follow", key=f"{BOB} {ALICE}", did=BOB, raw={}),
        line(kind="repost", key=f"{BOB} {harvest.uri(ALICE)}", did=BOB, raw={}),
        line(kind="like", key=harvest.uri(BOB), did=BOB, raw={"subject": {"uri": harvest.uri(ALICE)}}),
        line(kind="list_item", key=harvest.uri(BOB), did=BOB, raw={"subject": {"did": ALICE}}),
        line(kind="list_item", key=harvest.uri(BOB), did=BOB, raw={"subject": ALICE}),
        line(kind="post", key=harvest.uri(ALICE), reason="no rule", raw={}),
        line(kind="like", key=harvest.uri(BOB), reason="no rule", raw={"subject": {"uri": harvest.uri(ALICE)}}),
    ],
)
def test_lines_of_the_account_and_of_edges_to_it_go(gone: bytes) -> None:
    assert without(gone, ALICE) is None


@pytest.mark.parametrize(
    "kept",
    [
        line(kind="profile", key=ALICIA, did=ALICIA, raw={"did": ALICIA}),
        line(kind="follow", key=f"{BOB} {ALICIA}", did=BOB, raw={}),
        line(kind="post", key=harvest.uri(BOB), did=BOB, raw={"text": f"hello {ALICE}"}),
        line(kind="post", key=harvest.uri(BOB), did=BOB, raw={"reply": {"parent": {"uri": harvest.uri(ALICE)}}}),
        line(kind="profile", key=BOB, did=BOB, url=f"https://example.com/?actors={ALICIA}", raw={}),
        b'{"kind":"post",  "key":"x", "did":"did:plc:b", "raw":{"a": 1.50, "t": "did:plc:alice"}}',
    ],
)
def test_lines_of_others_keep_their_bytes(kept: bytes) -> None:
    assert without(kept, ALICE) == kept


def test_a_reject_that_is_no_json_is_emptied_when_it_names_the_account() -> None:
    left = without(line(kind="profile", key="", reason="broken", raw=f'{{"did":"{ALICE}","displayName'), ALICE)

    assert left
    assert json.loads(left) == {"kind": "profile", "key": "", "reason": "broken", "raw": "purged"}


@pytest.mark.parametrize("did", [ALICE, quote(ALICE, safe="")])
def test_the_address_of_a_page_that_showed_others_too_does_not_name_the_account(did: str) -> None:
    address = f"https://example.com/?actors={did}&actors={ALICIA}"
    left = without(line(kind="profile", key=BOB, did=BOB, url=address, raw={"a": 1}), ALICE)

    assert left
    assert json.loads(left) == {
        "kind": "profile",
        "key": BOB,
        "did": BOB,
        "url": f"https://example.com/?actors=purged&actors={ALICIA}",
        "raw": {"a": 1},
    }


def test_surrogates_in_a_line_do_not_stop_a_purge() -> None:
    left = without(
        rb'{"kind":"post","key":"k","did":"d","raw":{"a":{"did":"%b","x":"\ud800"},"b":"\ud800"}}' % ALICE.encode(),
        ALICE,
    )

    assert (
        left
        == rb'{"kind":"post","key":"k","did":"d","raw":{"a":{"did":"%b","purged":true},"b":"\ud800"}}' % ALICE.encode()
    )


@pytest.mark.parametrize("odd", [b"9" * 5_000, b"[" * 700 + b"]" * 700, b"[" * 5_000 + b"]" * 5_000, b"1e400"])
def test_nothing_of_the_account_stays_in_a_line_that_python_cannot_look_through(odd: bytes) -> None:
    """Each account may be given such a line by others: it must not keep it from being removed."""
    theirs = json.dumps({"uri": harvest.uri(ALICE), "author": {"did": ALICE}, "text": harvest.SECRET}).encode()
    raw = b'{"odd":%b,"quote":%b}' % (odd, theirs)
    staged = b'{"kind":"post","key":"%b","did":"%b","crawl":"c","url":"","raw":%b}'
    of_bob = staged % (harvest.uri(BOB).encode(), BOB.encode(), raw)
    for left in (without(of_bob, ALICE), opt_outs.without(of_bob, {ALICE})):
        assert left
        assert json.loads(left) == json.loads(staged % (harvest.uri(BOB).encode(), BOB.encode(), b'"purged"'))
    of_alice = staged % (harvest.uri(ALICE).encode(), ALICE.encode(), raw)
    assert without(of_alice, ALICE) is opt_outs.without(of_alice, {ALICE}) is None
    assert without(of_bob, ALICIA) == of_bob
