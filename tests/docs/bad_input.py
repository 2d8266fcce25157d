"""The tables of docs/bad-input.md, made of the tests. `python -m tests.docs.bad_input` writes them there."""

import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

from tests.bad_input import test_mongodb, test_seeds, test_usage
from tests.bluesky import test_start_list, test_via_browser
from tests.browser import test_entries as test_steps
from tests.cli import test_new_site, test_runs, test_sandbox
from tests.cli import test_sites as test_commands_of_sites
from tests.counties import test_arguments as test_counties
from tests.counties import (
    test_beacon_crawls,
    test_check,
    test_devnet_crawls,
    test_eagleweb_crawls,
    test_esearch_crawls,
    test_iasworld,
    test_pacs_crawls,
    test_patriot_crawls,
    test_vgsi_crawls,
)
from tests.docs import test_adding_a_site
from tests.endings import test_unopened
from tests.endpoints import test_cli as test_endpoints_cli
from tests.endpoints import test_definition as test_endpoints
from tests.endpoints import test_feeds
from tests.feeds import test_export
from tests.flows import test_recording
from tests.frontier import test_cli as test_frontier
from tests.hashtags import test_arguments as test_hashtags
from tests.identities import test_entries as test_identities
from tests.jobs import test_bad_input as test_jobs
from tests.jobs import test_changes, test_schedule_cli
from tests.outcomes import test_policies
from tests.privacy import test_purge
from tests.publish import test_amqp, test_sinks, test_webhook
from tests.publish import test_cli as test_publish
from tests.root import ROOT
from tests.sites import test_property, test_registry
from tests.stores import test_import, test_redis
from tests.worker import test_supervisor

MOST = 160
"""Characters of a cell."""


class Row(NamedTuple):
    """A kind of bad input."""

    given: str
    said: str
    code: int


def rows() -> dict[str, list[Row]]:
    """Heading -> what is refused."""
    return {
        "Arguments, seeds and settings of `harvester crawl bluesky`": [
            *(Row(name, said[0], 2) for name, (_, said) in test_usage.KINDS.items()),
            *(Row(f"-a {name}={value}", said, 2) for name, (value, said) in test_usage.BAD_VALUES.items()),
            *(Row(f"{name}={value}", said, 2) for name, (value, said) in test_usage.BAD_SETTINGS.items()),
            *_of(test_unopened.test_a_setting_that_cannot_be_read_is_named, shlex.join),
            *_of(test_via_browser.test_what_no_page_shows_is_refused_before_anything_is_fetched, _arguments),
            *(
                Row(f"in a file of seeds: {name}", "neither a handle (name.example.com) nor a DID (did:plc:...)", 0)
                for name in test_seeds.BAD_LINES
            ),
        ],
        "Servers": [
            *(Row(f"{name}: no MongoDB there", test_mongodb.REMEDY, 3) for name in test_mongodb.STORIES),
            *_of(
                test_redis.test_an_address_that_cannot_be_used_is_refused_with_a_sentence,
                lambda url: f"REDIS_URL={url.replace('secret', '...')}",
            ),
        ],
        "Arguments of `harvester crawl hashtags`": [
            *_of(test_hashtags.test_what_cannot_be_meant_is_refused, _given),
            *_of(test_hashtags.test_what_nothing_can_come_of_is_refused_before_anything_is_fetched, _given),
        ],
        "`harvester jobs`": [
            *_of(test_jobs.test_a_submission_that_cannot_be_meant_is_refused, _words("harvester jobs submit")),
            *_of(test_jobs.test_a_filter_that_is_none_is_refused, _words("harvester jobs items JOB")),
            *_of(test_jobs.test_an_export_that_cannot_be_is_refused, _words("harvester jobs export JOB")),
            *(row for name, kind in test_jobs.KINDS.items() for row in _in_source(name, kind)),
            *_of(test_changes.test_a_change_that_cannot_be_is_refused_and_changes_nothing, _words("harvester jobs")),
        ],
        "`harvester schedule`": [
            *_of(
                test_schedule_cli.test_what_cannot_be_a_schedule_is_refused_and_nothing_is_kept,
                _words("harvester schedule"),
            ),
        ],
        "Other commands": [
            *_of(test_export.test_what_cannot_be_done_is_said, _words("harvester export")),
            *_of(test_import.test_what_cannot_be_read_is_said, _words("harvester import")),
            *_of(test_runs.test_what_cannot_be_shown_is_said, _words("harvester runs")),
            *_of(test_frontier.test_what_cannot_be_used_is_refused, _words("harvester frontier")),
            *_of(
                test_supervisor.test_what_cannot_be_used_is_refused_before_anything_is_started,
                _words("harvester worker SPIDER"),
            ),
            *_of(test_start_list.test_what_cannot_be_fed_is_said, _words("harvester feed")),
            *_of(test_sandbox.test_what_cannot_be_served_or_run_is_said, _words("harvester sandbox")),
            *_of(test_purge.test_who_is_not_clear_is_refused_and_nothing_is_removed, _words("harvester purge")),
            *_of(
                test_adding_a_site.test_a_spider_that_cannot_begin_is_refused_and_nothing_is_written,
                lambda arguments: f"harvester spiders new {arguments.format('https://site.example')}",
            ),
            Row(r"harvester spiders new county $'https://site.example/\r'", "holds a character that cannot be seen", 2),
            Row("harvester spiders new beside a module that does not compile", "cannot be imported: SyntaxError: ", 2),
        ],
        "Arguments of `harvester crawl arcgis` and `socrata`": [
            *_of(test_counties.test_what_cannot_be_meant_is_refused_before_anything_is_fetched, _given),
            *_of(
                test_counties.test_a_file_of_parcels_that_cannot_be_used_is_refused_with_its_lines,
                lambda name, text, column: f"{name}: {text!r}" + (f", -a column={column}" if column else ""),
            ),
        ],
        "Arguments of `harvester crawl vgsi`": [
            *_of(test_vgsi_crawls.test_a_search_that_cannot_be_meant_is_refused_before_anything_is_fetched, _given),
        ],
        "Arguments of `harvester crawl iasworld`": [
            *_of(test_iasworld.test_what_cannot_be_asked_of_a_site_is_refused, _given),
        ],
        "Arguments of `harvester crawl devnet`": [
            *_of(test_devnet_crawls.test_what_cannot_be_asked_of_a_site_is_refused, _given),
        ],
        "Arguments of `harvester crawl esearch`": [
            *_of(test_esearch_crawls.test_what_cannot_be_asked_of_a_site_is_refused, _given),
        ],
        "Arguments of `harvester crawl beacon`": [
            *_of(test_beacon_crawls.test_what_cannot_be_asked_of_a_site_is_refused, _given),
        ],
        "Arguments of `harvester crawl pacs`": [
            *_of(test_pacs_crawls.test_what_cannot_be_asked_of_a_site_is_refused, _given),
        ],
        "Arguments of `harvester crawl patriot`": [
            *_of(test_patriot_crawls.test_what_cannot_be_asked_of_a_site_is_refused, _given),
        ],
        "Arguments of `harvester crawl eagleweb`": [
            *_of(test_eagleweb_crawls.test_what_cannot_be_asked_of_a_site_is_refused, _given),
        ],
        "`harvester sites`": [
            *_of(
                test_commands_of_sites.test_what_there_is_not_is_refused_with_what_is_meant, _words("harvester sites")
            ),
            *_of(
                test_check.test_what_cannot_be_checked_is_refused_before_anything_is_asked,
                lambda words: f"harvester sites check {' --parcel '.join(words)}",
            ),
            *_of(
                test_new_site.test_what_cannot_be_an_entry_is_refused_and_nothing_is_written,
                lambda words: _words("harvester sites new")([word.format("https://site.example") for word in words]),
            ),
        ],
        "Entries of sites (TOML)": [
            *_of(test_property.test_property_records_that_cannot_be_used_are_named, _change),
            *_of(test_registry.test_an_entry_that_cannot_be_used_is_named, _entry),
            *_of(test_policies.test_an_entry_that_cannot_be_used_is_named_with_site_and_key, _entry),
            *_of(test_identities.test_entry_that_cannot_work_is_refused, lambda table: f"identities: {table}"),
            *_of(test_steps.test_a_step_that_cannot_be_meant_is_refused, lambda step: f"a step of a page: {step}"),
        ],
        "Publishing (`HARVESTER_PUBLISH_FILE`, `harvester publish`)": [
            *_of(test_sinks.test_a_file_of_sinks_that_cannot_be_used_is_refused, lambda text: text),
            *_of(test_sinks.test_what_there_is_not_cannot_be_wanted, lambda text: text),
            *_of(
                test_amqp.test_a_broker_that_cannot_be_used_is_refused,
                lambda text: f"[bus] kind = 'amqp' {text.replace('hidden-word', '...')}",
            ),
            *_of(
                test_webhook.test_a_webhook_that_cannot_be_used_is_refused, lambda text: f"[hook] kind='webhook' {text}"
            ),
            *_of(
                test_webhook.test_a_webhook_without_a_secret_is_refused,
                lambda secrets: f"HARVESTER_PUBLISH_HOOK_SECRETS={secrets.replace('hidden-word', '...')}",
            ),
            *_of(test_publish.test_what_cannot_be_meant_is_refused, _words("harvester publish")),
        ],
        "Endpoints (`harvester crawl endpoints`)": [
            *(Row(text.removeprefix("[a]\n"), said, 2) for text, said in test_endpoints.BAD),
            *(Row(_given(arguments) or "no arguments", said, 2) for arguments, said in test_endpoints.UNUSABLE),
            *(Row(_words("harvester endpoints")(words), said, 2) for words, said in test_endpoints_cli.BAD),
        ],
        "Arguments of `harvester crawl feeds`": [
            *(Row(_given(arguments) or "no arguments", said, 2) for arguments, said in test_feeds.BAD),
        ],
        "Recordings (`harvester flow check`, `harvester crawl flow`)": [
            *(Row(name, said, 2) for name, said in test_recording.INVALID.items()),
            *(Row(name, said, 2) for name, (_, said) in test_recording.UNWANTED.items()),
            *(Row(f"beside it: {name}", said, 2) for name, (_, said) in test_recording.BESIDE.items()),
            *_of(test_recording.test_arguments_that_cannot_be_used_are_refused_before_anything_is_fetched, _given),
        ],
    }


def table() -> str:
    """As Markdown."""
    lines = []
    for heading, of in rows().items():
        lines += [f"## {heading}", "", "| Given | What is said | Exit code |", "|---|---|---|"]
        lines += [f"| `{_cell(row.given)}` | {_cell(row.said)} | {row.code} |" for row in of]
        lines.append("")
    return "\n".join(lines)


def _of(test: Callable[..., Any], given: Callable[..., str]) -> Iterator[Row]:
    """The cases of a test with the parameter `said` (or `sentence`), and `code` where it is not 2."""
    is_pattern = "match=said" in inspect.getsource(test)
    (mark,) = [mark for mark in test.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    names, cases = mark.args
    for case in cases:
        values = dict(zip(names, getattr(case, "values", case), strict=True))
        code = values.pop("code", 2)
        said = values.pop("said", None) or values.pop("sentence")
        yield Row(given(*values.values()), _plain(said) if is_pattern else said, code)


def _words(command: str) -> Callable[[Sequence[str]], str]:
    return lambda words: f"{command} {shlex.join(words)}"


def _arguments(arguments: dict[str, str]) -> str:
    return " ".join(f"-a {name}={value}" for name, value in {"via": "browser", **arguments}.items())


def _given(arguments: dict[str, str]) -> str:
    return " ".join(f"-a {name}={value}" for name, value in arguments.items())


def _entry(text: str) -> str:
    return text.replace("[a]\nhosts = ['x']\n", "")


def _change(change: tuple[str, str]) -> str:
    """What is added to a good entry, or takes the place of what."""
    before, after = change
    return after.removesuffix(before) if after.endswith(before) else f"{after} instead of {before}"


def _in_source(name: str, test: Callable[..., Any]) -> Iterator[Row]:
    """What a test without parameters looks for in answers, and the exit code that it wants of the worst."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(test)))
    texts: dict[str, ast.expr] = {}
    code = max(filter(_is_code, map(_code, ast.walk(tree))), default=2)
    placed = [node for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.expr))]
    for node in sorted(placed, key=lambda node: (node.lineno, node.col_offset)):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant() | ast.JoinedStr()):
                texts[target] = node.value
            case ast.Call(func=ast.Name(id="refused") | ast.Attribute(attr="accepts_nothing"), args=[_, said, *own]):
                yield Row(name, _text(said, texts), ast.literal_eval(own[0]) if own else 2)
            case ast.Call(func=ast.Attribute(attr="search"), args=[ast.Constant(value=str(pattern)), _]):
                yield Row(name, _plain(pattern), code)
            case ast.Compare(left=said, ops=[ast.In()], comparators=[ast.Attribute(attr="err" | "out")]):
                yield Row(name, _text(said, texts), code)
            case ast.Compare(left=said, ops=[ast.In()], comparators=[ast.Call(func=ast.Attribute(attr="read_text"))]):
                yield Row(name, _text(said, texts), code)


def _is_code(code: int | None) -> TypeGuard[int]:
    return code is not None


def _code(node: ast.AST) -> int | None:
    if not isinstance(node, ast.Compare) or not re.search(r"code|wait\(", ast.unparse(node.left)):
        return None
    match node.comparators[0]:
        case ast.Constant(value=int(code)) | ast.Tuple(elts=[ast.Constant(value=int(code)), *_]):
            return code
    return None


def _text(node: ast.expr, texts: dict[str, ast.expr]) -> str:
    """Of an f-string its fixed parts."""
    if isinstance(node, ast.Name):
        node = texts[node.id]
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
    return str(ast.literal_eval(node))


def _plain(pattern: str) -> str:
    """What a regular expression looks for, as far as it is text."""
    return re.sub(r"\\(.)", r"\1", pattern)


def _cell(text: str) -> str:
    text = text.encode("utf-8", "replace").decode().replace("|", "\\|").replace("`", "'")
    text = " ".join("".join(each if each.isprintable() or each.isspace() else "?" for each in text).split())
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def write() -> None:
    """Behind what the page says before its first table."""
    page = ROOT / "docs" / "bad-input.md"
    text = page.read_text()
    page.write_text(f"{text[: text.index('## ')]}{table().strip()}\n")


if __name__ == "__main__":
    write()
