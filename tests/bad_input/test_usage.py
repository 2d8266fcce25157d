"""Arguments, seeds and settings that cannot be used: refused with exit code 2, before anything is fetched."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.bad_input.command import Answer, Place, unprivileged
from tests.sandbox.process import Sandbox

BAD_VALUES = {
    "seeds": ("not a handle,did:plc:short", "did:plc:..."),
    "depth": ("-1", "0"),
    "direction": ("sideways", "'followers', 'follows' or 'both'"),
    "max_accounts": ("many", "integer"),
    "collect": ("graph,secrets", "'graph', 'profiles', 'posts', 'threads' or 'lists'"),
    "history": ("zip", "'appview', 'records' or 'car'"),
    "since": ("yesterday", "2025-01-31"),
    "until": ("31.1.2025", "2025-01-31"),
    "media": ("perhaps", "yes or no"),
    "service": ("ftp://bsky.app/api?x=1", "https://public.api.bsky.app"),
    "honour_opt_outs": ("sometimes", "yes or no"),
    "colour": ("blue", "argument"),
}
"""Argument -> a value that cannot be used, and what is named in its place."""

BAD_SETTINGS = {
    "HARVESTER_DATABASE": ("a/b", "38"),
    "HARVESTER_REQUESTS_PER_SECOND": ("-2", "0"),
    "HARVESTER_CONCURRENT_PER_HOST": ("0", "1"),
    "HARVESTER_PLC_URL": ("plc.directory", "https://example.org"),
    "HARVESTER_BLUESKY_SERVICE": ("bsky.app", "https://example.org"),
    "HARVESTER_ALLOW_PRIVATE_HOSTS": ("perhaps", "boolean"),
    "HARVESTER_MAX_RESPONSE_MB": ("ten", "integer"),
    "HARVESTER_MAX_ERROR_RATIO": ("7", "1"),
    "HARVESTER_CONTROL_HOSTS": ("https://harvester.example", "scheme"),
    "HARVESTER_CONTROL_PROXIES": ("proxy.example", "networks"),
    "HARVESTER_CONTACT": ("me", "e-mail"),
    "HARVESTER_ALERT_SLACK_WEBHOOK_URL": ("hooks.slack.com/services/x", "address"),
}
"""Variable -> a value that cannot be used, and what is named in its place."""


class Refused(NamedTuple):
    answer: Answer
    crawls: int
    """That were begun."""


def crawl(place: Place, site: Sandbox, **arguments: Any) -> Answer:
    return place.crawl(site, **arguments)


def crawl_with(variable: str, value: str, place: Place, site: Sandbox) -> Answer:
    place.variables[variable] = value
    return place.crawl(site, media="yes")


def mongodb_under_its_other_name(place: Place, site: Sandbox) -> Answer:
    del place.variables["HARVESTER_MONGODB_URI"]
    return crawl_with("MONGODB_URI", "mongodb://127.0.0.1/?colour=blue", place, site)


def redis_that_is_not_used(place: Place, site: Sandbox) -> Answer:
    del place.variables["HARVESTER_REDIS_URL"]
    place.variables["REDIS_URL"] = "htp://127.0.0.1"
    return place.crawl(site, "-s", "SCHEDULER=scrapy.core.scheduler.Scheduler")


def bad_settings(place: Place, site: Sandbox) -> Answer:
    place.variables |= {name: value for name, (value, _) in BAD_SETTINGS.items()}
    return place.crawl(site)


def site_named_as_the_account(place: Place, site: Sandbox) -> Answer:
    entry = '[bluesky]\nhosts = ["bsky.app"]\n[bluesky.identities]\nkind = "anonymous"\n'
    (place.folder / "sites").mkdir()
    (place.folder / "sites" / "bluesky.toml").write_text(entry)
    account = {"IDENTIFIER": "alice.test", "APP_PASSWORD": "abcd-efgh-ijkl-mnop", "PDS": site.url}
    place.variables |= {f"HARVESTER_BLUESKY_{name}": value for name, value in account.items()}
    return crawl_with("HARVESTER_SITES_DIR", str(place.folder / "sites"), place, site)


def crawl_file(content: bytes, place: Place, site: Sandbox) -> Answer:
    (place.folder / "seeds.txt").write_bytes(content)
    return place.crawl(site, seeds="@seeds.txt")


def unreadable_file(place: Place, site: Sandbox) -> Answer:
    (place.folder / "seeds.txt").touch(mode=0)
    return place.crawl(site, seeds="@seeds.txt", wrapper=unprivileged())


def folder_as_file(place: Place, site: Sandbox) -> Answer:
    (place.folder / "seeds").mkdir()
    return place.crawl(site, seeds="@seeds")


def unreadable_env(place: Place, site: Sandbox) -> Answer:
    (place.folder / ".env").touch(mode=0)
    return place.crawl(site, wrapper=unprivileged())


def binary_env(place: Place, site: Sandbox) -> Answer:
    (place.folder / ".env").write_bytes(b"HARVESTER_CONTACT=\xff\xfe\n")
    return place.crawl(site)


def command(*words: str) -> Callable[[Place, Sandbox], Answer]:
    return lambda place, site: place.run(*words)


KINDS: dict[str, tuple[Callable[[Place, Sandbox], Answer], tuple[str, ...]]] = {
    "nothing on standard input": (partial(crawl, seeds="-"), ("seed", "-a seeds=alice")),
    "a file of which no line is a seed": (
        partial(crawl_file, b"\xef\xbb\xbf\r\n  \n# nobody\nalice\n\x00\xff\xfe\n" + b"x" * 1_000_000),
        (
            "3 lines",
            "Line 4, 'alice'",
            "Line 5, '\\x00��'",
            f"Line 6, '{'x' * 80}'",
            "-a seeds=",
        ),
    ),
    "a missing file of seeds": (
        partial(crawl, seeds="@seeds.txt"),
        ("seeds: ", "seeds.txt", "No such file"),
    ),
    "a folder instead of a file of seeds": (folder_as_file, ("seeds: ", "Is a directory")),
    "an unreadable file of seeds": (unreadable_file, ("seeds: ", "seeds.txt", "Permission denied")),
    "a name of a file that is not UTF-8": (partial(crawl, seeds="@caf\udce9.txt"), ("seeds: ", "UTF-8")),
    "since after until": (partial(crawl, since="2025-02-01", until="2025-01-01"), ("since", "until")),
    "threads without posts": (partial(crawl, collect="graph,threads"), ("threads", "posts")),
    "an unknown spider": (command("scrapy", "crawl", "bluebird"), ("'bluebird'", "arcgis, ")),
    "a misspelt spider": (command("scrapy", "crawl", "blusky"), ("'blusky'", "bluesky")),
    "a misspelt argument": (partial(crawl, max_acounts=5), ("max_acounts", "max_accounts")),
    "a Redis that is none, though none is used": (redis_that_is_not_used, ("REDIS_URL", "'htp'")),
    "an .env that may not be read": (unreadable_env, (".env", "Permission denied")),
    "an .env that is not text": (binary_env, (".env", "can't decode")),
    "a malformed address of MongoDB": (
        partial(crawl_with, "HARVESTER_MONGODB_URI", "mongodb://127.0.0.1:123456/"),
        ("HARVESTER_MONGODB_URI", "Port must be", "mongodb://user:password@db.example:27017/"),
    ),
    "an unknown option of MongoDB": (
        partial(crawl_with, "HARVESTER_MONGODB_URI", "mongodb://127.0.0.1/?colour=blue"),
        ("HARVESTER_MONGODB_URI", "option: colour"),
    ),
    "an address of MongoDB under its other name": (mongodb_under_its_other_name, ("MONGODB_URI", "option: colour")),
    "a place for pictures of an unknown scheme": (
        partial(crawl_with, "HARVESTER_IMAGES_STORE", "gopher://pictures"),
        ("'gopher://pictures'", "s3://bucket/prefix"),
    ),
    "half a login": (
        partial(crawl_with, "HARVESTER_BLUESKY_IDENTIFIER", "alice.test"),
        ("password", "HARVESTER_BLUESKY_APP_PASSWORD"),
    ),
    "a site with identities that is called as the account": (
        site_named_as_the_account,
        ("account", "bluesky", "entry"),
    ),
    "a purge without an account": (command("harvester", "purge", "--yes"), ("--account", "--undo", "--list")),
    "a purge of a malformed DID": (
        command("harvester", "purge", "--yes", "--account", "did:PLC:"),
        ("--account", "'did:PLC:'"),
    ),
    "a purge of an unknown handle": (
        command("harvester", "purge", "--yes", "--account", "nobody.test"),
        ("'nobody.test'", "DID"),
    ),
    "a report before any harvest": (command("harvester", "report"), ("database test-",)),
}
"""Kind of bad input -> how it is given, and what is named then."""


def bad_values(place: Place, site: Sandbox) -> Answer:
    values: dict[str, Any] = {name: value for name, (value, _) in BAD_VALUES.items()}
    return place.crawl(site, **values)


def refused(run: Callable[[Place, Sandbox], Answer], place: Place, site: Sandbox) -> Refused:
    return Refused(run(place, site), place.database["jobs"].count_documents({}))


STORIES = {kind: partial(refused, run) for kind, (run, _) in KINDS.items()}
STORIES |= {"bad values": partial(refused, bad_values), "bad settings": partial(refused, bad_settings)}

Told = Callable[[str], Refused]


@pytest.mark.parametrize("story", KINDS)
def test_what_cannot_be_used_is_refused_before_anything_is_fetched(story: str, told: Told) -> None:
    answer, crawls = told(story)
    for named in KINDS[story][1]:
        assert re.search(rf"(?<!\w){re.escape(named)}", answer.said), named
    assert answer.is_for_people(), answer.text
    assert answer.code == 2, answer.text
    assert crawls == 0


@pytest.mark.parametrize("argument", BAD_VALUES)
@pytest.mark.parametrize("story", ["bad values"])
def test_each_bad_argument_is_named(argument: str, story: str, told: Told) -> None:
    answer, crawls = told(story)
    (line,) = [line for line in answer.text.splitlines() if line.startswith(f"  {argument}: ")]
    assert BAD_VALUES[argument][1] in line.partition(": ")[2]
    assert BAD_VALUES[argument][0].rpartition(",")[2] in line
    assert "harvester spiders show bluesky" in answer.said
    assert answer.is_for_people(), answer.text
    assert (answer.code, crawls) == (2, 0)


@pytest.mark.parametrize("variable", BAD_SETTINGS)
@pytest.mark.parametrize("story", ["bad settings"])
def test_each_bad_variable_is_named(variable: str, story: str, told: Told) -> None:
    answer, crawls = told(story)
    (line,) = [line for line in answer.text.splitlines() if line.startswith(f"  {variable}: ")]
    assert BAD_SETTINGS[variable][1] in line.partition(": ")[2]
    assert "Value error" not in line
    assert answer.is_for_people(), answer.text
    assert (answer.code, crawls) == (2, 0)
