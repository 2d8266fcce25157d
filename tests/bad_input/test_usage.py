"""Arguments, seeds and settings that cannot be used: refused with exit code 2, before anything is fetched."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.bad_input.command import Answer, Place, unprivileged
from tests.sandbox.process import Sandbox

BAD_VALUES = {
    "seeds": ("not a handle,did:plc:short", "nor a DID (did:plc:...)"),
    "depth": ("-1", "greater than or equal to 0"),
    "direction": ("sideways", "'followers', 'follows' or 'both'"),
    "max_accounts": ("many", "valid integer"),
    "collect": ("graph,secrets", "'graph', 'profiles', 'posts', 'threads' or 'lists'"),
    "history": ("zip", "'appview', 'records' or 'car'"),
    "since": ("yesterday", "a date like 2025-01-31"),
    "until": ("31.1.2025", "a date like 2025-01-31"),
    "media": ("perhaps", "say yes or no"),
    "service": ("ftp://bsky.app/api?x=1", "the address of a server, like https://public.api.bsky.app"),
    "honour_opt_outs": ("sometimes", "say yes or no"),
    "colour": ("blue", "there is no such argument"),
}
"""Argument -> a value that cannot be used, and why."""

BAD_SETTINGS = {
    "HARVESTER_DATABASE": ("a/b", "give a name of 1 to 38 letters, digits, - and _"),
    "HARVESTER_REQUESTS_PER_SECOND": ("-2", "greater than or equal to 0"),
    "HARVESTER_CONCURRENT_PER_HOST": ("0", "greater than or equal to 1"),
    "HARVESTER_PLC_URL": ("plc.directory", "give an address, as https://example.org"),
    "HARVESTER_BLUESKY_SERVICE": ("bsky.app", "give an address, as https://example.org"),
    "HARVESTER_ALLOW_PRIVATE_HOSTS": ("perhaps", "valid boolean"),
    "HARVESTER_MAX_RESPONSE_MB": ("ten", "valid integer"),
    "HARVESTER_MAX_ERROR_RATIO": ("7", "less than or equal to 1"),
    "HARVESTER_CONTROL_HOSTS": ("https://harvester.example", "give it without scheme and port"),
    "HARVESTER_CONTROL_PROXIES": ("proxy.example", "give addresses or networks"),
    "HARVESTER_CONTACT": ("me", "give an e-mail address or a page of yours"),
    "HARVESTER_ALERT_SLACK_WEBHOOK_URL": ("hooks.slack.com/services/x", "is no web address; give the whole one"),
}
"""Variable -> a value that cannot be used, and why."""


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
    "nothing on standard input": (partial(crawl, seeds="-"), ("There is no seed to begin with", "-a seeds=alice")),
    "a file of which no line is a seed": (
        partial(crawl_file, b"\xef\xbb\xbf\r\n  \n# nobody\nalice\n\x00\xff\xfe\n" + b"x" * 1_000_000),
        (
            "There is no seed to begin with: none of the 3 lines names an account.",
            "Line 4, 'alice', is neither a handle (name.example.com) nor a DID",
            "Line 5, '\\x00��', is",
            f"Line 6, '{'x' * 80}', is",
            "Give accounts: -a seeds=",
        ),
    ),
    "a missing file of seeds": (
        partial(crawl, seeds="@seeds.txt"),
        ("seeds: the file seeds.txt cannot be read: No such file or directory",),
    ),
    "a folder instead of a file of seeds": (folder_as_file, ("seeds: the file seeds cannot be read",)),
    "an unreadable file of seeds": (
        unreadable_file,
        ("seeds: the file seeds.txt cannot be read: Permission denied",),
    ),
    "a name of a file that is not UTF-8": (
        partial(crawl, seeds="@caf\udce9.txt"),
        ("seeds: it is not text in UTF-8: type it in a terminal that sends UTF-8",),
    ),
    "since after until": (
        partial(crawl, since="2025-02-01", until="2025-01-01"),
        ("since must be before until",),
    ),
    "threads without posts": (partial(crawl, collect="graph,threads"), ("threads are found through posts",)),
    "an unknown spider": (command("scrapy", "crawl", "bluebird"), ("no spider 'bluebird'; there are: arcgis, ",)),
    "a misspelt spider": (command("scrapy", "crawl", "blusky"), ("no spider 'blusky'", "did you mean bluesky?")),
    "a misspelt argument": (partial(crawl, max_acounts=5), ("no such argument", "did you mean max_accounts?")),
    "a Redis that is none, though none is used": (
        redis_that_is_not_used,
        ("REDIS_URL cannot be used: harvester does not know addresses of the kind 'htp'",),
    ),
    "an .env that may not be read": (
        unreadable_env,
        ("The file .env in ", "Permission denied", "Mend it, or remove it"),
    ),
    "an .env that is not text": (binary_env, ("The file .env in ", "can't decode", "Mend it, or remove it")),
    "a malformed address of MongoDB": (
        partial(crawl_with, "HARVESTER_MONGODB_URI", "mongodb://127.0.0.1:123456/"),
        ("HARVESTER_MONGODB_URI cannot be used: Port must be", "mongodb://user:password@db.example:27017/"),
    ),
    "an unknown option of MongoDB": (
        partial(crawl_with, "HARVESTER_MONGODB_URI", "mongodb://127.0.0.1/?colour=blue"),
        ("HARVESTER_MONGODB_URI cannot be used: Unknown option: colour",),
    ),
    "an address of MongoDB under its other name": (
        mongodb_under_its_other_name,
        ("MONGODB_URI cannot be used: Unknown option: colour",),
    ),
    "a place for pictures of an unknown scheme": (
        partial(crawl_with, "HARVESTER_IMAGES_STORE", "gopher://pictures"),
        ("Files cannot be kept at 'gopher://pictures': give a folder, or s3://bucket/prefix",),
    ),
    "half a login": (
        partial(crawl_with, "HARVESTER_BLUESKY_IDENTIFIER", "alice.test"),
        ("A login needs an identifier and a password, and one is missing", "HARVESTER_BLUESKY_APP_PASSWORD"),
    ),
    "a site with identities that is called as the account": (
        site_named_as_the_account,
        ("The spider's account is called bluesky: give that site's entry another name.",),
    ),
    "a purge without an account": (
        command("harvester", "purge", "--yes"),
        ("give one of --account <DID, handle or author>, --undo <DID, handle or author> or --list",),
    ),
    "a purge of a malformed DID": (
        command("harvester", "purge", "--yes", "--account", "did:PLC:"),
        ("--account: 'did:PLC:' is not a DID",),
    ),
    "a purge of an unknown handle": (
        command("harvester", "purge", "--yes", "--account", "nobody.test"),
        ("no account with the handle 'nobody.test' was harvested; give its DID",),
    ),
    "a report before any harvest": (command("harvester", "report"), ("There are no records in the database test-",)),
}
"""Kind of bad input -> how it is given, and what is said of it."""


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
    for sentence in KINDS[story][1]:
        assert sentence in answer.said
    assert answer.is_for_people(), answer.text
    assert answer.code == 2, answer.text
    assert crawls == 0


@pytest.mark.parametrize("argument", BAD_VALUES)
@pytest.mark.parametrize("story", ["bad values"])
def test_each_bad_argument_is_named(argument: str, story: str, told: Told) -> None:
    answer, crawls = told(story)
    (line,) = [line for line in answer.text.splitlines() if line.startswith(f"  {argument}: ")]
    assert BAD_VALUES[argument][1] in line
    assert BAD_VALUES[argument][0].rpartition(",")[2] in line
    assert "`harvester spiders show bluesky` lists them all." in answer.said
    assert answer.is_for_people(), answer.text
    assert (answer.code, crawls) == (2, 0)


@pytest.mark.parametrize("variable", BAD_SETTINGS)
@pytest.mark.parametrize("story", ["bad settings"])
def test_each_bad_variable_is_named(variable: str, story: str, told: Told) -> None:
    answer, crawls = told(story)
    (line,) = [line for line in answer.text.splitlines() if line.startswith(f"  {variable}: ")]
    assert BAD_SETTINGS[variable][1] in line
    assert "Value error" not in line
    assert answer.is_for_people(), answer.text
    assert (answer.code, crawls) == (2, 0)
