"""Seeds that are well-formed and no good, alone and among good ones: the good ones are harvested."""

from collections.abc import Callable

import pytest

from tests.bad_input.command import Answer, Place
from tests.sandbox.process import Sandbox

GOOD = (20, 21, 22, 23)

BAD_LINES = {
    "a sentence": b"alice is my favourite",
    "binary garbage": b"\x00\xff\xfe\x01\x02",
    "a very long line": b"x" * 1_000_000,
    "two seeds on a line": b"alice.test bob.test",
    "a DID with a hole": b"did:plc:",
    "an address of another site": b"https://example.com/profile/alice.test",
    "an e-mail address": b"alice@example.com",
    "a path": b"../../etc/passwd",
}
"""Kind -> a line of a file that is no seed."""


def unknown_handle(place: Place, site: Sandbox) -> Answer:
    return place.crawl(site, seeds="nobody.sandbox.test")


def file(place: Place, site: Sandbox) -> tuple[Answer, dict[str, tuple[str, str]]]:
    good = [
        site.did(GOOD[0]),
        f"  @{site.handle(GOOD[1]).upper()}  # with a remark",
        f"https://bsky.app/profile/{site.handle(GOOD[2])}",
        f"at://{site.did(GOOD[3])}/app.bsky.actor.profile/self",
    ]
    unknown = ["nobody.sandbox.test", site.did("deactivated"), "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"]
    lines = [*BAD_LINES.values(), b"", b"   ", b"# a remark", *(seed.encode() for seed in [*good, *unknown])]
    (place.folder / "seeds.txt").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    return place.crawl(site, seeds="@seeds.txt"), place.stages()


STORIES = {"alone": unknown_handle, "file": file}


@pytest.mark.parametrize("story", ["alone"])
def test_an_unknown_handle_is_named_and_the_run_does_not_pass(story: str, told: Callable[[str], Answer]) -> None:
    answer = told(story)
    assert "nobody.sandbox.test" in answer.said
    assert "seeds rejected 1" in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == 6


@pytest.mark.parametrize("kind", BAD_LINES)
@pytest.mark.parametrize("story", ["file"])
def test_each_line_that_is_no_seed_is_named(
    kind: str, story: str, told: Callable[[str], tuple[Answer, object]]
) -> None:
    answer, _ = told(story)
    number = list(BAD_LINES).index(kind) + 1
    (line,) = [line for line in answer.text.splitlines() if f"Line {number} " in line]
    assert "did:plc:..." in line
    assert len(line) < 500


@pytest.mark.parametrize("story", ["file"])
def test_good_seeds_among_bad_ones_are_harvested(
    story: str, told: Callable[[str], tuple[Answer, dict[str, tuple[str, str]]]], site: Sandbox
) -> None:
    answer, stages = told(story)
    assert {did for did, (stage, _) in stages.items() if stage == "posts_collected"} == set(map(site.did, GOOD))
    assert f"seeds rejected {len(BAD_LINES) + 1}" in answer.said
    assert stages[site.did("deactivated")] == ("failed", "gone: AccountDeactivated")
    stage, reason = stages["did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"]
    assert (stage, reason.partition(": ")[0]) == ("failed", "not_found")
    assert "accounts failed 2: " in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == 0, answer.text
