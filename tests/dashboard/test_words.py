"""Numbers and commands as people read them."""

import shlex

import pytest

from harvester.formatting import (
    counted,
    duration,
    number,
    plural,
    size,
    typed_arguments,
    typed_command,
    without_userinfo,
)


@pytest.mark.parametrize(
    ("seconds", "text", "rough"),
    [
        (0.4, "0 s", "0 s"),
        (59.4, "59 s", "59 s"),
        (59.6, "1 min 00 s", "1 min"),
        (751, "12 min 31 s", "13 min"),
        (3599.6, "1 h 00 min", "1 h 00 min"),
        (7320, "2 h 02 min", "2 h 02 min"),
        (200_000, "2 d 07 h", "2 d 07 h"),
        (-3, "0 s", "0 s"),
    ],
)
def test_durations_show_two_units_at_most(seconds: float, text: str, rough: str) -> None:
    assert duration(seconds) == text
    assert duration(seconds, rough=True) == rough


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 bytes"), (999, "999 bytes"), (12_345_678, "12.3 MB"), (5e15, "5,000 TB")]
)
def test_sizes_are_in_the_largest_fitting_unit(amount: float, text: str) -> None:
    assert size(amount) == text


def test_numbers_are_grouped_and_only_small_ones_have_a_fraction() -> None:
    assert [number(value) for value in (3, 11.25, 980.4, 120_400)] == ["3", "11.2", "980", "120,400"]
    assert [counted(1, "page"), counted(1204, "page"), counted(0, "entry", "entries")] == [
        "1 page",
        "1,204 pages",
        "0 entries",
    ]


@pytest.mark.parametrize(
    ("noun", "several"),
    [
        ("account", "accounts"),
        ("list_item", "list items"),
        ("county", "counties"),
        ("survey", "surveys"),
        ("address", "addresses"),
        ("batch", "batches"),
    ],
)
def test_kinds_have_a_plural(noun: str, several: str) -> None:
    assert plural(noun) == several
    assert counted(2, noun) == f"2 {several}"


def test_arguments_are_shown_as_one_types_them() -> None:
    arguments = {"media": True, "via": "api", "max_accounts": None, "collect": ["graph", "posts"], "empty": ""}
    assert typed_arguments(arguments).split() == ["media=yes", "via=api", "collect=graph,posts", "empty="]
    quoted = typed_arguments({"name": "Ann's \u0141", "given": {"a": [1]}})
    assert shlex.split(quoted) == ["name=Ann's \u0141", 'given={"a": [1]}']


def test_passwords_in_addresses_are_left_out() -> None:
    said = without_userinfo("at mongodb://ann:p%40ss@db.example:27017/x and https://tok@host/@handle")
    assert said.split() == ["at", "mongodb://db.example:27017/x", "and", "https://host/@handle"]


@pytest.mark.parametrize(
    ("original", "script", "command"),
    [
        (["/venv/bin/python", "/venv/bin/scrapy", "crawl", "x"], "/venv/bin/scrapy", "scrapy crawl x"),
        (["python3", "-X", "dev", "/bin/scrapy", "crawl", "x"], "/bin/scrapy", "scrapy crawl x"),
        (["python", "-m", "scrapy", "crawl", "x"], "/site-packages/scrapy/__main__.py", "python -m scrapy crawl x"),
        (["p", "scrapy", "-a", "seeds=a b", "$x"], "scrapy", "scrapy -a 'seeds=a b' '$x'"),
        (["p", "scrapy", "-s", "PROXY=http://u:pw@h"], "scrapy", "scrapy -s PROXY=http://h"),
    ],
)
def test_command_can_be_typed_again(original: list[str], script: str, command: str) -> None:
    assert typed_command(original, script) == command
