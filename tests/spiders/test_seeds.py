"""Seeds in every form that people give them; what names no account is told with its line."""

import io
import re
import sys
from pathlib import Path

import pytest

from harvester.exceptions import UsageError
from harvester.spiders import seeds
from harvester.spiders.seeds import BadSeed, Seeds, parse_seed

DID = "did:plc:abcdefghijklmnopqrstuvwx"


@pytest.mark.parametrize(
    ("text", "seed"),
    [
        ("alice.bsky.social", "alice.bsky.social"),
        ("@alice.bsky.social", "alice.bsky.social"),
        ("Alice.BSKY.Social", "alice.bsky.social"),
        ("a.co", "a.co"),
        ("4chan.org", "4chan.org"),
        ("xn--bcher-kva.tld", "xn--bcher-kva.tld"),
        (f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}", f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}"),
        (DID, DID),
        (f"@{DID}", DID),
        ("did:web:example.com", "did:web:example.com"),
        ("did:web:localhost%3A1234", "did:web:localhost%3A1234"),
        (
            "did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N",
            "did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N",
        ),
        ("https://bsky.app/profile/alice.test", "alice.test"),
        ("https://bsky.app/profile/alice.test/", "alice.test"),
        ("https://bsky.app/profile/alice.test/post/3kabc?x=1#y", "alice.test"),
        (f"https://bsky.app/profile/{DID}/feed/cats", DID),
        ("http://staging.bsky.app/profile/alice.test", "alice.test"),
        ("HTTPS://BSKY.APP/PROFILE/ALICE.TEST", "alice.test"),
        ("bsky.app/profile/alice.test", "alice.test"),
        ("bsky.app", "bsky.app"),
        ("at://alice.test", "alice.test"),
        (f"at://{DID}/app.bsky.feed.post/3kabc", DID),
    ],
)
def test_account_is_found_in_what_names_one(text: str, seed: str) -> None:
    assert parse_seed(text) == seed
    assert list(Seeds(text)) == list(Seeds(f"{text},")) == [seed]


@pytest.mark.parametrize(
    "text",
    [
        "alice",
        "bob@example.com",
        "alice test.example",
        "alice..test",
        "-alice.test",
        "alice-.test",
        "alice.test.",
        "alice.123",
        "127.0.0.1",
        "jo_hn.test",
        "bücher.test",
        f"{'a' * 64}.test",
        f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}",
        "did:plc:...",
        "did:plc:tooshort",
        f"{DID}x",
        "did:plc:ABCDEFGHIJKLMNOPQRSTUVWX",
        "did:plc",
        "did:web:",
        "did:web:example.com%",
        "DID:web:example.com",
        f"did:web:{'x' * 2048}",
        "https://bsky.app/profile/alice",
        "https://bsky.app/profile/",
        "https://bsky.app/",
        "https://example.com/profile/alice.test",
        "https://bsky.app.evil.example/profile/alice.test",
        "alice.test/post/1",
        "ftp://alice.test",
        "at://",
        "@",
    ],
)
def test_what_names_no_account_is_told_as_it_was_given(text: str) -> None:
    bad = parse_seed(text)
    assert isinstance(bad, BadSeed)
    assert bad.text == text[:200]
    assert "handle" in bad.reason


def test_seeds_on_the_command_line_may_have_spaces_and_gaps() -> None:
    assert list(Seeds(f" alice.test , @bob.test,,\n{DID} ,")) == ["alice.test", "bob.test", DID]
    assert list(Seeds("")) == []
    assert Seeds("alice.test,nobody,bob.test").refusal() == f"'nobody' is {BadSeed(0, '', parse_reason()).reason}"
    assert Seeds("alice.test").refusal() is None


def parse_reason() -> str:
    bad = parse_seed("nobody")
    assert isinstance(bad, BadSeed)
    return bad.reason


def test_handles_copied_from_the_app_come_with_marks_that_nobody_sees() -> None:
    assert list(
        Seeds("\u202a@alice.test\u202c,\ufeffbob.test,\u200ecyd.test\u200f,\u2066dot.test\u2069,eve\u200b.test")
    ) == [
        "alice.test",
        "bob.test",
        "cyd.test",
        "dot.test",
        "eve.test",
    ]


def write(folder: Path, content: bytes) -> str:
    (folder / "seeds.txt").write_bytes(content)
    return f"@{folder / 'seeds.txt'}"


def test_file_has_a_seed_a_line_and_its_bad_lines_are_told_by_number(tmp_path: Path) -> None:
    lines = [
        "\ufeff# who to begin with",
        "alice.test",
        "",
        "   ",
        "nobody",
        "\tbob.test  # a friend",
        "a.test,b.test",
        DID,
    ]
    read = list(Seeds(write(tmp_path, "\r\n".join(lines).encode())))
    assert [seed for seed in read if isinstance(seed, str)] == ["alice.test", "bob.test", DID]
    assert [(bad.line, bad.text) for bad in read if isinstance(bad, BadSeed)] == [(5, "nobody"), (7, "a.test,b.test")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_file_may_end_its_lines_as_it_likes(tmp_path: Path, end: str) -> None:
    assert list(Seeds(write(tmp_path, f"alice.test{end}bob.test".encode()))) == ["alice.test", "bob.test"]


def test_file_with_a_byte_order_mark_before_the_first_seed(tmp_path: Path) -> None:
    assert list(Seeds(write(tmp_path, b"\xef\xbb\xbfalice.test\nbob.test\n"))) == ["alice.test", "bob.test"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"# nothing\n"])
def test_file_without_seeds_has_none(tmp_path: Path, content: bytes) -> None:
    assert list(Seeds(write(tmp_path, content))) == []


def test_bytes_that_are_no_utf8_make_bad_lines_and_no_more(tmp_path: Path) -> None:
    read = list(Seeds(write(tmp_path, b"alice.test\n\xff\xfe\x00\nbob.test\nd\xfcr.test\n")))
    assert [bad.line for bad in read if isinstance(bad, BadSeed)] == [2, 4]
    assert [seed for seed in read if isinstance(seed, str)] == ["alice.test", "bob.test"]


def test_line_of_any_length_is_told_in_short(tmp_path: Path) -> None:
    (bad,) = Seeds(write(tmp_path, b"x" * 1_000_000))
    assert isinstance(bad, BadSeed)
    assert len(bad.text) == 200


@pytest.mark.parametrize("given", ["@nowhere.txt", "@lists/nowhere", "@seeds", "@nowhere.csv", "@", "@~/no such file"])
def test_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    refusal = Seeds(given).refusal()
    assert refusal
    name = given.removeprefix("@").rpartition("/")[2]
    assert name in refusal
    with pytest.raises(UsageError, match=re.escape(name) or None):
        list(Seeds(given))
    with pytest.raises(UsageError, match=re.escape(name) or None):
        Seeds(given).digest()


def test_at_sign_begins_a_handle_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(Seeds("@alice.test")) == ["alice.test"]
    assert list(Seeds("@alice.test,bob.test")) == ["alice.test", "bob.test"]
    assert len(list(Seeds(",".join(["@alice.test"] * 1000)))) == 1000
    (tmp_path / "alice.test").write_text("from.file\n")
    assert list(Seeds("@alice.test")) == ["from.file"]


def test_home_folder_may_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write(tmp_path, b"alice.test")
    assert list(Seeds("@~/seeds.txt")) == ["alice.test"]


class StandardInput:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_standard_input_is_read_once_and_known_ever_after(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds._standard_input.cache_clear()
    monkeypatch.setattr(sys, "stdin", StandardInput(b"alice.test\nnobody\n"))
    read = Seeds("-")
    assert read.refusal() is None
    expected = ["alice.test", BadSeed(2, "nobody", parse_reason())]
    assert list(read) == list(read) == list(Seeds("-")) == expected
    assert read.digest() == Seeds("-").digest()
    seeds._standard_input.cache_clear()


def test_without_standard_input_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds._standard_input.cache_clear()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="standard input"):
        Seeds("-")


def test_digest_tells_sets_of_seeds_apart(tmp_path: Path) -> None:
    one = Seeds(write(tmp_path, b"alice.test\nbob.test\n")).digest()
    assert Seeds(write(tmp_path, b"\xef\xbb\xbfalice.test\r\nbob.test")).digest() == one
    assert Seeds("alice.test,bob.test").digest() == one
    assert Seeds("bob.test,alice.test").digest() != one
    assert Seeds("alice.test").digest() != one
