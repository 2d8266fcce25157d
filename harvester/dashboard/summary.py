"""The end of a run in words: the collected data, the missing data with reasons, and the places of the results."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from textwrap import fill

from rich.console import Console
from rich.text import Text

from harvester.config import NO_CONTACT, Config
from harvester.dashboard.panel import plural_of_records, records_listed
from harvester.dashboard.progress import (
    UNSTORED,
    ItemCounts,
    Progress,
    Stats,
    below,
    named_unread,
    two_below,
    unread_labels,
)
from harvester.formatting import counted, duration, number, plural, size, spaced, without_userinfo
from harvester.items import RECORDS
from harvester.jobs.documents import ItemState
from harvester.masking import mask
from harvester.shutdown import CAUSE, ENDED_BY, STOPPED_AT_ONCE, closed_as_asked

ENDINGS = {
    "finished": "complete",
    "shutdown": "stopped before it was complete",
    STOPPED_AT_ONCE: "stopped at once, before it was complete",
    "blocked": "given up, because the site refuses us",
    "unreachable": "given up, because the site does not answer",
    "unusable": "given up, because the site does not answer as it should",
    "parked": "not complete yet: what is left waits for its time",
    "paused": "paused",
    "cancelled": "cancelled",
    "job_gone": "given up, because its job is gone",
    "frontier_lost": "given up, because Redis forgot what was to be fetched; see the log for what to do",
    "storage_error": "given up, because records could not be kept",
    "service_error": "given up, because a server that is needed is not there",
    "state_gone": "given up, because the folder of the private servers was removed",
    "session_error": "given up, because there is no login",
    "usage_error": "not begun, because its arguments cannot be used",
    "program_error": "given up after a fault of this program; see the log",
}
"""Finish reasons in words."""

INTERRUPTIONS = (STOPPED_AT_ONCE, "shutdown", "parked", "paused", "cancelled")
"""Finish reasons that are not faults."""
NOT_CONTINUED = ("usage_error", "frontier_lost", "state_gone", "paused", "cancelled", "job_gone")
"""Finish reasons that the same command does not continue from."""
AT_ITS_END = "at its end, but some requests of it were given up"
"""The ending of a crawl that leaves dead letters."""
UP_TO_DATE = "up to date"
"""The ending of a recurring job with all items visited."""
INCOMPLETE = "at its end, but some of it is left"
"""The ending of a run that has done all due work, but not the whole job."""

LEFT = "harvester/frontier/left"
"""Name of a stat: requests that wait in the frontier, or are with other workers, at the end of the run."""
_LIMITS = {
    f"closespider_{name}": f"CLOSESPIDER_{name.upper()}"
    for name in ("timeout", "itemcount", "pagecount", "errorcount", "timeout_no_item", "pagecount_no_item")
} | {"memusage_exceeded": "MEMUSAGE_LIMIT_MB"}
"""Finish reason of Scrapy's extensions -> the setting with the limit."""

JUDGED = "harvester/verdict/said"
"""Name of a stat: the messages of the first failed monitors."""

OPENED_BY = "harvester.stores.mongodb.connect_sync(harvester.config.load_config())"

_MOST_REASONS = 5
_LONGEST_REASON = 70

_Row = tuple[str, str]


@dataclass(frozen=True)
class ResultPlaces:
    """The places of a run's results."""

    database: str
    server: str
    """Address of MongoDB without password, or a description of a private server."""
    staging: str
    images: str
    spider: str = ""

    @classmethod
    def of(cls, config: Config, spider: str) -> "ResultPlaces":
        uri = config.mongodb_uri
        server = mask(without_userinfo(uri.get_secret_value())) if uri else f"a private server in {config.state_dir}"
        return cls(
            database=config.database,
            server=server,
            staging=str(config.data_dir / "staging" / spider),
            images=config.images_location,
            spider=spider,
        )


@dataclass(frozen=True)
class Summary:
    """The summary of a run. Rows are (label, text)."""

    title: str
    mood: str
    """`good`, `bad`, or `unfinished`."""
    collected: list[_Row] = field(default_factory=list)
    missing: list[_Row] = field(default_factory=list)
    places: list[_Row] = field(default_factory=list)
    warning: str = ""
    """A problem to fix before the next run."""
    command: str | None = None
    """The command that continues the crawl; None when nothing is left."""
    causes: list[str] = field(default_factory=list)
    """Reasons for a bad end, in one or two sentences each."""
    more: _Row | None = None
    """A further command, with its purpose before it."""


def summarise(stats: Stats, places: ResultPlaces, command: str) -> Summary:
    """Returns the summary of a run.

    `stats`: the stats after the spider was closed; `command`: the command that started the run.
    """
    reason = str(stats.get("finish_reason") or STOPPED_AT_ONCE)
    progress = Progress.of(stats, now=float("inf"))
    complete = reason == "finished" and stats.get("harvester/job_finished", True)
    is_as_asked = closed_as_asked(stats)
    ending = ENDINGS.get(reason, f"ended: {spaced(reason)}")
    if reason == "finished" and not complete:
        ending = INCOMPLETE
    if is_as_asked:
        limit = _LIMITS.get(reason)
        ending = f"stopped at the limit {limit}" if limit else f"stopped by its spider: {spaced(reason)}"
    dead = below(stats, "harvester/frontier/dead")
    standing = "harvester/next_look" in stats
    is_over = complete and not standing
    if complete and standing:
        ending = UP_TO_DATE
    if complete and dead:
        ending = AT_ITS_END
    verdict = str(stats.get("harvester/verdict", "not judged"))
    mood = "unfinished" if reason in INTERRUPTIONS or is_as_asked or (complete and verdict == "passed") else "bad"
    return Summary(
        title=f"{progress.job or 'The crawl'} is {ending}; {_verdict(stats, verdict)}. {_pace(stats, progress)}.",
        mood="good" if reason == "finished" and verdict == "passed" and not dead else mood,
        collected=list(_collected(progress, stats)),
        missing=[*_dead_letters(dead, places.spider), *_missing(progress, stats)],
        places=list(_places(progress, stats, places)),
        warning=NO_CONTACT if stats.get("harvester/no_contact") else "",
        command=mask(command) if _goes_on(stats) and not is_over else None,
        causes=[mask(str(cause)) for cause in ([stats[CAUSE]] if CAUSE in stats else stats.get(JUDGED, ()))],
        more=_more(stats, places, verdict),
    )


def _goes_on(stats: Stats) -> bool:
    """Returns True if the same command continues the crawl."""
    if closed_as_asked(stats):
        return bool(stats.get(LEFT, True))
    return not {stats.get("finish_reason"), stats.get(ENDED_BY)}.intersection(NOT_CONTINUED)


def _more(stats: Stats, places: ResultPlaces, verdict: str) -> _Row | None:
    done_before = stats.get("harvester/frontier/duplicates") and not stats.get("harvester/frontier/leased")
    if done_before and not stats.get("harvester/frontier/unserialisable"):
        return (
            "Nothing was left to do: all that was asked for was fetched before. To fetch it anew, type this first:",
            f"harvester frontier forget {places.spider} --all",
        )
    if verdict == "failed" and (run := stats.get("harvester/run")):
        return "All that the monitors found:", f"harvester runs show {run}"
    if (
        stats.get("harvester/feeds/of_a_part")
        and (job := stats.get("harvester/job"))
        and not stats.get("harvester/job_finished")
    ):
        return "The file of -o has what each run gives. All records of the job:", f"harvester jobs export {job}"
    return None


def _verdict(stats: Stats, verdict: str) -> str:
    if verdict == "failed":
        return f"the monitors found {counted(stats.get('harvester/verdict/failures', 1), 'fault')}"
    return "all monitors passed" if verdict == "passed" else verdict


def _pace(stats: Stats, progress: Progress) -> str:
    seconds = float(stats.get("elapsed_time_seconds") or 0)
    pages = counted(progress.pages, "page")
    if seconds <= 0:
        return pages
    rates = f"{number(progress.pages / seconds)} pages/s, {number(progress.records_total / seconds)} records/s"
    return f"{pages} in {duration(seconds)} ({rates})"


def _collected(progress: Progress, stats: Stats) -> Iterator[_Row]:
    for items in progress.items:
        stages = ", ".join(f"{spaced(stage)}: {count:,}" for stage, count in items.by_stage.items())
        words = items.told(f"{items.done:,} of {items.total:,}", f"{items.done:,} done")
        yield plural(items.kind), words + (f" ({stages})" if stages and items.left else "")
    earlier, removed = below(stats, "harvester/records/seen_again"), below(stats, "harvester/consent/removed")
    new = {kind: count - earlier.get(kind, 0) - removed.get(kind, 0) for kind, count in progress.records.items()}
    yield "new records", records_listed({kind: count for kind, count in new.items() if count > 0}) or "none"
    if unstored := below(stats, UNSTORED):
        yield "not stored", f"{records_listed(unstored)}: harvester's pipelines are off, and nothing asked for storage"
    if earlier:
        yield "seen again", records_listed(earlier)
    if gone := below(stats, "harvester/records/gone"):
        yield "gone since then", records_listed(gone)
    for name, files in progress.files.items():
        if files.stored or files.unchanged:
            kept = max(0, files.stored - (removed.get("picture", 0) if name == "images" else 0))
            yield name, f"{kept:,} stored" + (f", {files.unchanged:,} had not changed" if files.unchanged else "")
    if progress.staged_bytes:
        yield "staged", size(progress.staged_bytes)
    if look := stats.get("harvester/next_look"):
        yield "next look", f"at {datetime.fromtimestamp(look, UTC):%Y-%m-%d %H:%M} UTC"


def _missing(progress: Progress, stats: Stats) -> Iterator[_Row]:
    for items in progress.items:
        yield from _not_done(items, two_below(stats, f"harvester/reasons/{items.kind}"))
    if left := stats.get(LEFT):
        yield "requests left", f"{left:,}"
    if due := stats.get("harvester/next_due"):
        yield "next try", f"from {datetime.fromtimestamp(due, UTC):%Y-%m-%d %H:%M} UTC on"
    if refused := stats.get("harvester/frontier/unserialisable"):
        yield "requests refused", f"{refused:,} with what cannot be kept; `harvester project check` names it"
    if stats.get("harvester/seeds/rejected"):
        yield "seeds rejected", f"{stats['harvester/seeds/rejected']:,}"
    yield from _consent(stats)
    for event in ("rejected", "dropped"):
        reasons = two_below(stats, f"harvester/records/{event}")
        for kind, count in below(stats, f"harvester/records/{event}").items():
            yield f"{plural_of_records(kind)} {event}", _why(count, reasons.get(kind, {}))
    if put_back := stats.get("harvester/frontier/put_back"):
        yield "pages put back", f"{put_back:,} whose records were not all stored when the run ended"
    for name, files in progress.files.items():
        if files.failed:
            yield f"{name} failed", _why(sum(files.failed.values()), files.failed)
    errors = {
        f"{spaced(outcome)} at {host}": count
        for outcome, hosts in two_below(stats, "harvester/errors").items()
        for host, count in hosts.items()
    }
    if errors:
        ordered = dict(sorted(errors.items(), key=lambda pair: -pair[1]))
        yield "errors met", _why(sum(errors.values()), ordered)
    if unread := unread_labels(stats):
        yield "labels nobody reads", f"{named_unread(unread)}; `harvester sites learn` proposes what they mean"
    if stats.get("harvester/unclassified"):
        yield (
            "unclassified",
            f"{counted(stats['harvester/unclassified'], 'failure')} that no rule knew; see the log",
        )


def _not_done(items: ItemCounts, reasons: Mapping[str, Mapping[str, int]]) -> Iterator[_Row]:
    """Yields rows about items that are not done. `reasons`: state -> reason -> number.

    Waiting items with a reason will be retried.
    """
    name = plural(items.kind)
    for state in (ItemState.FAILED, ItemState.SKIPPED):
        if state in items.by_state:
            yield f"{name} {state}", _why(items.by_state[state], reasons.get(state, {}))
    again = reasons.get(ItemState.WAITING, {})
    if again:
        yield f"{name} to be tried again", _why(sum(again.values()), again)
    if left := max(0, items.left - sum(again.values())):
        yield f"{name} left", f"{left:,}"


def _dead_letters(dead: Mapping[str, int], spider: str) -> Iterator[_Row]:
    """Yields the requests that the frontier has given up, in this run or before."""
    if dead:
        see = f"see `harvester frontier dead {spider}`; `harvester frontier replay {spider} --all` tries again"
        yield "dead letters", f"{_why(sum(dead.values()), dead)}; {see}"


def _consent(stats: Stats) -> Iterator[_Row]:
    """Yields the data left out because accounts opted out."""
    stubbed = stats.get("harvester/consent/stubbed", 0)
    parts = [f"{counted(stubbed, 'profile')} reduced to a stub"] if stubbed else []
    for event in ("dropped", "purged"):
        kinds = below(stats, f"harvester/consent/{event}")
        if kinds:
            parts.append(f"{records_listed(kinds)} {event}")
    if parts:
        yield "opted out", "; ".join(parts)
    if unknown := stats.get("harvester/consent/unknown", 0):
        yield "declarations", f"of {counted(unknown, 'account')} unknown: the account's own server could not be asked"


def _places(progress: Progress, stats: Stats, places: ResultPlaces) -> Iterator[_Row]:
    collections = ", ".join(sorted(RECORDS[kind].COLLECTION for kind in progress.records if kind in RECORDS))
    yield "MongoDB", f"database {places.database}, {places.server}" + (f": {collections}" if collections else "")
    yield "in Python", OPENED_BY
    yield "elsewhere", "harvester db prints its address; harvester export writes files"
    if progress.staged_bytes:
        yield "staged records", places.staging
    for name, files in progress.files.items():
        if files.stored or files.unchanged:
            yield name, places.images
    if stats.get("harvester/report"):
        yield "report", str(stats["harvester/report"])


def _why(count: int, reasons: Mapping[str, int]) -> str:
    """Returns a text such as `12: 9 max accounts, 3 opt out`, with only the most frequent reasons."""
    parts = [f"{n:,} {_cut(_in_words(reason))}" for reason, n in list(reasons.items())[:_MOST_REASONS]]
    others = sum(reasons.values()) - sum(list(reasons.values())[:_MOST_REASONS])
    parts += [f"{others:,} for other reasons"] if others else []
    return f"{count:,}: {', '.join(parts)}" if parts else f"{count:,}"


def _in_words(reason: str) -> str:
    """Returns the reason with its leading stage and outcome in words.

    Names of variables, hosts and labels stay unchanged.
    """
    names = re.match(r"(?:\S+: )*", reason)[0]  # type: ignore[index]  # it matches nothing, too
    said = reason.removeprefix(names)
    return spaced(names) + (said if names or " " in said else spaced(said))


def _cut(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"


def show(summary: Summary, console: Console) -> None:
    """Writes the summary; in colour on a terminal, as plain text elsewhere."""
    style = {"good": "bold green", "bad": "bold red", "unfinished": "bold yellow"}[summary.mood]
    lines = [Text(), Text(fill(summary.title, console.width), style=style)]
    for title, rows in (
        ("Collected", summary.collected),
        ("Not collected, and why", summary.missing),
        ("Where it lies", summary.places),
    ):
        if rows:
            lines += [Text(f"\n{title}", style="bold"), *_aligned(rows, console.width)]
    if summary.warning:
        lines += [Text(), Text(fill(summary.warning, console.width), style="yellow")]
    if summary.causes:
        lines += [Text("\nWhy", style="bold"), *(Text(_folded(cause, console.width)) for cause in summary.causes)]
    if summary.more:
        lines += _typed(*summary.more)
    if summary.command:
        lines += _typed("To continue, run the same command again:", summary.command)
    console.print(Text("\n").join([*lines, Text()]), soft_wrap=True)


def _folded(text: str, width: int) -> str:
    """Returns the text indented, and wrapped line by line."""
    return "\n".join(
        fill(line, max(width, 40), initial_indent="  ", subsequent_indent="  ", break_long_words=False,
             break_on_hyphens=False)
        for line in text.splitlines()
    )  # fmt: skip


def _typed(why: str, command: str) -> list[Text]:
    return [Text(f"\n{why}", style="bold"), Text(f"  {command}")]


def _aligned(rows: Sequence[_Row], width: int) -> Iterator[Text]:
    """Yields labels and values in two columns. URLs and paths are not broken, so they can be copied."""
    indent = 4 + max(len(label) for label, _ in rows)
    for label, value in rows:
        first = f"  {label:<{indent - 2}}"
        room = max(width, indent + 30)
        text = fill(
            value, room, initial_indent=first, subsequent_indent=" " * indent, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        yield Text.assemble((text[: len(first)], "dim"), text[len(first) :])
