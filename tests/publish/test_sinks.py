"""A file of sinks that cannot be meant is refused with a sentence; a good one says who is told of what."""

import re
from base64 import b64encode
from math import inf, nan
from pathlib import Path

import pytest
from pydantic import SecretStr

from harvester.config import Config, misspelt
from harvester.exceptions import UsageError
from harvester.masking import mask
from harvester.publish.sinks import WebhookSink, load_sinks
from tests.root import ROOT


def config(folder: Path, text: str) -> Config:
    file = folder / "publish.toml"
    file.write_text(text)
    return Config(publish_file=file, mongodb_uri=SecretStr("mongodb://127.0.0.1"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no sink"),
        ("posts", "publish.toml"),
        ("kind = 'redis'", "kind "),
        ("[a]\nurl = 'x'", "a: it has no `kind`"),
        ("[a]\nkind = 'kafka'", "'kafka'"),
        ("[a]\nkind = ['redis']", "['redis']"),
        ("[A-b]\nkind = 'redis'", "'A-b'"),
        ("[a]\nkind = 'redis'\nname = 'b'", "heading"),
        ("[a]\nkind = 'redis'\nrecord = ['post']", "a.record: "),
        ("[a]\nkind = 'redis'\nchanges = []", "a.changes: "),
        ("[a]\nkind = 'redis'\nchanges = ['gone']", "a.changes.0: "),
        ("[a]\nkind = 'redis'\nwhere = 'price >'", "'price >'"),
        ("[a]\nkind = 'redis'\nset_aside_hours = 0", "a.set_aside_hours: "),
        ("[a]\nkind = 'redis'\nmost_entries = 0", "a.most_entries: "),
        ("[a]\nkind = 'redis'\nurl = 'http://x'", "redis, rediss, unix"),
        ("[a]\nkind = 'redis'\nurl = 'redis://[x'", "redis://"),
        (
            "[a]\nkind = 'redis'\nurl = 'redis://x/main'",
            "HARVESTER_PUBLISH_FILE",
        ),
        ("[a]\nkind = 'redis'\nurl = 'redis://x/?wait=5'", "AbstractConnection"),
        (
            "[a]\nkind = 'redis'\nurl = 'redis://:hidden-word@x'",
            "HARVESTER_PUBLISH_A_URL",
        ),
    ],
)
def test_a_file_of_sinks_that_cannot_be_used_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        load_sinks(config(tmp_path, text))
    assert said in str(refused.value)
    assert "hidden-word" not in str(refused.value)


def test_a_file_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"publish\.toml"):
        load_sinks(config(tmp_path, f"a = {'[' * 10_000}"))


def test_files_that_begin_with_a_mark_are_read(tmp_path: Path) -> None:
    """Editors on Windows put it there."""
    secret = f"whsec_{b64encode(bytes(range(32))).decode()}"
    (tmp_path / "secret").write_text(secret, "utf-8-sig")
    text = f"\ufeff[a]\nkind = 'webhook'\nurl = 'https://a.example/'\nsecrets_file = '{tmp_path / 'secret'}'"
    sinks = load_sinks(config(tmp_path, text))
    assert sinks
    sink = sinks.by_name["a"]
    assert isinstance(sink, WebhookSink)
    assert sink.secrets() == [bytes(range(32))]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"publish\.toml .*No such file"):
        load_sinks(Config(publish_file=tmp_path / "publish.toml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nkind = 'redis'\nrecords = ['posts']", "a.records: "),
        ("[a]\nkind = 'redis'\nspiders = ['twitter']", "a.spiders: "),
    ],
)
def test_what_there_is_not_cannot_be_wanted(text: str, said: str, tmp_path: Path) -> None:
    sinks = load_sinks(config(tmp_path, text))
    assert sinks
    with pytest.raises(UsageError) as refused:
        sinks.check_names(["bluesky", "toys"])
    assert said in str(refused.value)


def test_items_of_a_spider_can_be_wanted(tmp_path: Path) -> None:
    sinks = load_sinks(config(tmp_path, "[a]\nkind = 'redis'\nrecords = ['toys', 'post']"))
    assert sinks
    sinks.check_names(["toys"])
    assert [sink.name for sink in sinks.wanting("toys", "toys")] == ["a"]
    assert sinks.wanting("follow", "bluesky") == ()


def test_a_password_comes_from_a_variable_which_is_no_misspelt_setting_and_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARVESTER_PUBLISH_A_URL", "rediss://user:hidden-word@redis.example:6380/2")
    made = config(tmp_path, "[a]\nkind = 'redis'")
    sinks = load_sinks(made)
    assert sinks
    assert sinks.named("a").address().endswith("redis.example:6380/2")
    assert mask("the hidden-word") == "the ***"
    assert misspelt(made) == []


@pytest.mark.parametrize(
    ("where", "record", "taken"),
    [
        ("", {}, True),
        ("langs[0] == 'en'", {"langs": ["en"]}, True),
        ("langs[0] == 'en'", {}, False),
        ("price > `100`", {"price": 120}, True),
        ("price > `100`", {"price": "much"}, False),
        ("length(text) > `3`", {"text": None}, False),
        ("ceil(price) > `3`", {"price": inf}, False),
        ("floor(price) > `3`", {"price": nan}, False),
        ("likes", {"likes": 0}, True),
        ("likes", {"likes": False}, False),
        ("tags", {"tags": []}, False),
    ],
)
def test_a_filter_is_met_when_its_expression_is_true(
    where: str, record: dict[str, object], taken: bool, tmp_path: Path
) -> None:
    sinks = load_sinks(config(tmp_path, f'[a]\nkind = "redis"\nwhere = "{where}"'))
    assert sinks
    assert sinks.named("a").takes(record) is taken


def test_what_the_page_shows_of_a_file_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "publishing.md").read_text("utf-8"), re.M | re.S)
    monkeypatch.setenv("HARVESTER_PUBLISH_EVERYTHING_URL", "amqp://user:password@broker.example/")
    monkeypatch.setenv("HARVESTER_PUBLISH_SALES_SECRETS", "whsec_" + b64encode(bytes(32)).decode())
    monkeypatch.setenv("HARVESTER_PUBLISH_EVERYTHING_URL", "amqps://broker.example/vhost")
    for block in blocks:
        assert load_sinks(config(tmp_path, block))
    assert blocks
