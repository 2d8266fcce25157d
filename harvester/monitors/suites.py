"""The monitors that judge a run at its end.

A monitor's message has one or two sentences: the event in numbers, the likely meaning, and the remedy.
"""

import logging
from statistics import median
from typing import Any
from unittest import SkipTest

from scrapy.crawler import Crawler
from spidermon import Monitor, MonitorSuite
from spidermon.decorators import monitors

from harvester import logs
from harvester.config import load_config
from harvester.dashboard.live import LiveView
from harvester.dashboard.progress import named_unread
from harvester.dashboard.summary import JUDGED
from harvester.exceptions import UNMET
from harvester.formatting import counted
from harvester.items import LINK
from harvester.jobs.documents import ItemState
from harvester.monitors.alerts import SendAlerts
from harvester.monitors.history import history_of
from harvester.monitors.judgement import Judgement
from harvester.monitors.report import WriteReport
from harvester.monitors.summary import HostErrors, RunSummary
from harvester.outcomes import Outcome, get_policy
from harvester.shutdown import CAUSE, EXIT_CODE

logger = logging.getLogger(__name__)

REQUIRED_COVERAGE = {
    ("profile", "handle"): 1.0,
    ("follow", "subject_did"): 1.0,
    ("post", "created_at"): 0.9,
    ("repost", "subject_uri"): 1.0,
    ("like", "subject_uri"): 1.0,
    ("thread", "post_count"): 1.0,
    ("list", "name"): 1.0,
    ("list", "purpose"): 1.0,
    ("list_item", "subject_did"): 1.0,
}
"""(kind, field) -> share of records that must have it. Optional fields are left out.

A post's date comes from the author's client, and some clients write nonsense.
"""

MAX_COVERAGE_DROP = 0.3
"""Maximum loss of a field's coverage against earlier runs, as a share of all records."""
MIN_COVERAGE_SAMPLE = 20
"""Minimum number of records of a kind to compare its coverage with earlier runs; below it differences are chance."""
MIN_LOSS = 3
"""Minimum number of missing records to count as a drop: 1 list instead of 2 is chance."""
MOST_SAID = 2
"""Maximum number of monitors that the run's summary quotes."""
MAX_REFUSED_RATIO = 0.05
"""Maximum share of refusals among all responses."""
MAX_MISREAD_RATIO, MIN_MISREAD = 0.01, 10
"""Maximum share of a host's responses with an unknown layout among all responses, and the minimum number to fail.

For a parked run only the number counts.
"""

ADVICE = {
    "blocked": "Wait before the next run, and ask for less (HARVESTER_REQUESTS_PER_SECOND).",
    "challenge": "Wait before the next run, and ask for less (HARVESTER_REQUESTS_PER_SECOND).",
    "rate_limited": "Wait before the next run, and ask for less (HARVESTER_REQUESTS_PER_SECOND).",
    "auth_required": "It wants a login: configure one if you have an account there.",
    "policy_denied": "Its rules do not allow this: ask its operator, or leave it out.",
}
"""Outcome -> advice, for refusals and requests to slow down."""
PRIVATE_HOSTS = "HARVESTER_PRIVATE_HOSTS"


class RunMonitor(Monitor):  # type: ignore[misc]
    """The base of the monitors. `note`: the message of a monitor that passed."""

    note = ""

    def setUp(self) -> None:
        history = history_of(self.data.crawler)
        self.config = load_config()
        self.earlier = history.earlier
        self.resumed = bool(getattr(self.data.spider, "resumed", False))
        self.summary = RunSummary.from_stats(self.data.stats)
        if self.summary.interrupted:
            raise SkipTest("The run was ended by hand or by a limit, or never begun: its counts say nothing.")

    def skip_without(self, runs: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        """Returns the earlier runs; skips the monitor if the list is empty."""
        if runs is None:
            raise SkipTest("The history of runs was not available: MongoDB could not be reached.")
        if not runs:
            raise SkipTest("There is no earlier passed run to compare with.")
        return runs


@monitors.name("Finish reason")
class FinishReasonMonitor(RunMonitor):
    def runTest(self) -> None:
        reason = self.summary.finish_reason
        if reason != "finished" and self.summary.cause:
            self.fail(f"The run ended early, with the reason '{reason}': {self.summary.cause}")
        if reason != "finished":
            self.fail(
                f"The run ended early, with the reason '{reason}', so its harvest is incomplete. "
                "Mend the cause (see the end of its log), then start it again with the same arguments: "
                "it continues where it stopped."
            )
        if refused := self.summary.refused:
            self.fail(
                f"{counted(refused, 'request')} had a callback or a value that cannot be kept, so what they lead "
                "to is missing: `harvester project check` names them, and the log the first."
            )
        dead = sum(self.summary.dead.values())
        given_up = f", but for {counted(dead, 'dead letter')} (`harvester frontier dead`)" if dead else ""
        self.note = f"All that was queued has been worked off{given_up}."


@monitors.name("Refusals")
class RefusalMonitor(RunMonitor):
    def runTest(self) -> None:
        outcomes = self.summary.outcomes
        refused = sum(count for name, count in outcomes.items() if get_policy(name).refusal)
        total = sum(outcomes.values())
        self.note = f"{refused:,} of {total:,} answers were a refusal."
        if self.summary.finish_reason == "blocked" or refused > total * MAX_REFUSED_RATIO:
            self.fail(" ".join([self.note, *self._who()]))

    def _who(self) -> list[str]:
        """Returns sentences about the hosts that refused, their messages, and the remedy."""
        refusals = [error for error in self.summary.errors if error.outcome in ADVICE][:3]
        sentences = []
        for outcome, host, times, said in refusals:
            answer = f', and said: "{said}"' if said else ""
            sentences.append(f"{host} said no {counted(times, 'time')} ({outcome}){answer}.")
        return sentences + list(dict.fromkeys(_advice(error) for error in refusals))


def _advice(error: HostErrors) -> str:
    if error.outcome == "policy_denied" and PRIVATE_HOSTS in error.said:  # no request was sent
        return f"If {error.host} is your own, set {PRIVATE_HOSTS}={error.host} in the environment or in .env."
    return ADVICE[error.outcome]


@monitors.name("Record count")
class RecordCountMonitor(RunMonitor):
    def runTest(self) -> None:
        stored, least = sum(self.summary.stored.values()), self.config.min_records
        self.note = f"{counted(stored, 'record')} stored."
        if unstored := sum(self.summary.unstored.values()):
            stored += unstored
            self.note += f" {unstored:,} passed the project's own pipelines, and nothing asked for storage."
        if self.summary.job_records is not None:  # a run also processes items of other runs
            stored = self.summary.job_records
            self.note = f"{counted(stored, 'record')} stored for the job's items, those of several for each."
        elif self.resumed:
            raise SkipTest(f"{self.note} The run continued another, so there is no least number.")
        if stored < least:
            self.fail(
                f"{self.note} At least {least:,} are expected (HARVESTER_MIN_RECORDS). Either there was nothing "
                "to find, or nothing was reached or understood: look at the seeds and at the failures."
            )


@monitors.name("Drop against earlier runs")
class DropMonitor(RunMonitor):
    def runTest(self) -> None:
        if self.resumed:
            raise SkipTest("The run continued another: a part is not compared with the whole.")
        if self.summary.finish_reason != "finished":
            raise SkipTest("The run ended early: less than before is what one expects.")
        earlier = self.skip_without(self.earlier and self.earlier.same_scope)
        kinds = sorted({kind for run in earlier for kind in run["counts"]})
        before = {kind: median(run["counts"].get(kind, 0) for run in earlier) for kind in kinds}
        drops = [self._drop(kind, before[kind]) for kind in kinds]
        if any(drops):
            self.fail(
                f"Less was stored than in the last {len(earlier)} passed runs with the same arguments: "
                f"{', '.join(filter(None, drops))}. Either it is gone at the source, or pages were cut short "
                "or not understood: compare the staged answers with those of an earlier run."
            )
        self.note = f"Compared with {len(earlier)} earlier runs with the same arguments."

    def _drop(self, kind: str, before: float) -> str:
        now = self.summary.stored.get(kind, 0)
        if before - now < MIN_LOSS or now >= before * (1 - self.config.max_drop_ratio):
            return ""
        return f"{now:,} {kind} records instead of {before:,.0f} (−{1 - now / before:.0%})"


@monitors.name("Required fields")
class RequiredCoverageMonitor(RunMonitor):
    def runTest(self) -> None:
        gaps = []
        for (kind, field), least in REQUIRED_COVERAGE.items():
            records = self.summary.stored.get(kind, 0)
            share = self.summary.coverage.get(kind, {}).get(field, 0.0)
            if records > 0 and share < least:
                gaps.append(f"{kind}.{field} is in {share:.1%} of {records:,} records, not in {least:.0%}")
        if gaps:
            self.fail(
                f"Fields are missing: {'; '.join(gaps)}. The site has probably changed how it delivers them: "
                "compare a staged answer with the parser."
            )
        self.note = "No record lacks what every record has."


@monitors.name("Lost fields")
class CoverageDropMonitor(RunMonitor):
    def runTest(self) -> None:
        earlier = self.skip_without(self.earlier and (self.earlier.same_scope or self.earlier.same_spider))
        drops = []
        for kind, records in self.summary.stored.items():
            if records < MIN_COVERAGE_SAMPLE:
                continue
            runs = [run["coverage"][kind] for run in earlier if kind in run["coverage"]]
            for field in sorted({field for run in runs for field in run}):
                before = median(run.get(field, 0.0) for run in runs)
                now = self.summary.coverage.get(kind, {}).get(field, 0.0)
                if before - now > MAX_COVERAGE_DROP:
                    drops.append(f"{kind}.{field} was in {before:.0%} of the records and is in {now:.0%}")
        if drops:
            self.fail(
                f"Fields were lost against {len(earlier)} earlier passed runs: {'; '.join(drops)}. The site "
                "may have changed how it delivers them: compare a staged answer with the parser."
            )
        self.note = f"Compared with {len(earlier)} earlier runs."


@monitors.name("Error ratio")
class ErrorRatioMonitor(RunMonitor):
    def runTest(self) -> None:
        failed, total = self.summary.failed_outcomes(), sum(self.summary.outcomes.values())
        errors, most = sum(failed.values()), self.config.max_error_ratio
        self.note = f"{errors:,} of {total:,} requests failed."
        if errors > total * most:
            hosts = [f"{outcome} at {host} ({times:,})" for outcome, host, times, _ in self.summary.errors[:3]]
            self.fail(
                f"{self.note} HARVESTER_MAX_ERROR_RATIO allows {most:.0%}. The most frequent are "
                f"{', '.join(hosts) or _most(failed)}. What they would have brought is missing: start the run "
                "again with the same arguments when the cause is gone."
            )


@monitors.name("Reject ratio")
class RejectRatioMonitor(RunMonitor):
    def runTest(self) -> None:
        rejected, parsed = _of_records(self.summary.rejected), _of_records(self.summary.parsed)
        most = self.config.max_reject_ratio
        self.note = f"{rejected:,} of {parsed:,} records were rejected."
        if rejected > parsed * most:
            self.fail(
                f"{self.note} HARVESTER_MAX_REJECT_RATIO allows {most:.0%}. The most frequent reasons are "
                f"{_most(self.summary.reject_reasons) or _most(self.summary.rejected)}: the parser may misread "
                "a changed page. The reject files hold them all."
            )


@monitors.name("Unclassified failures")
class UnclassifiedMonitor(RunMonitor):
    def runTest(self) -> None:
        count, most = self.summary.unclassified, self.config.max_unclassified
        self.note = f"{counted(count, 'failure')} matched no rule."
        if count > most:
            self.fail(
                f"{self.note} The limit is {most:,} (HARVESTER_MAX_UNCLASSIFIED). "
                "A site answers in a way never seen before: find it in the log, and give it a rule."
            )


@monitors.name("Changed layout")
class LayoutMonitor(RunMonitor):
    def runTest(self) -> None:
        total, is_parked = sum(self.summary.outcomes.values()), self.summary.finish_reason == "parked"
        new = ", ".join(map(repr, self.summary.new_labels))
        self.note = f"Labels that no page had before: {new}." if new else "No page had a label that was not known."
        if self.summary.unread_labels:
            self.note += f" Labels nobody reads: {named_unread(self.summary.unread_labels)}."
        changed = [
            error
            for error in self.summary.errors
            if error.outcome == Outcome.LAYOUT_CHANGED
            and error.times >= MIN_MISREAD
            and (is_parked or error.times > total * MAX_MISREAD_RATIO)
        ]
        in_doubt = (
            " Of these parcels what was stored shortly before may be wrong; ask for them again when the site is as "
            f"before: {', '.join(self.summary.in_doubt)}."
            if self.summary.in_doubt
            else ""
        )
        if in_doubt and not changed:
            self.fail(f"Pages mean something else than before.{in_doubt}")
        if changed:
            said = [
                f"{host} {counted(times, 'time')}, the last time: {why or 'see its log'}."
                for _, host, times, why in changed
            ]
            self.fail(
                f"Pages were not as they should be, of {' '.join(said)} Nothing of them was stored. Look at one; when "
                f"the parser or the site's entry is mended, start the run again with the same arguments.{in_doubt}"
            )


@monitors.name("Failed items")
class FailedItemsMonitor(RunMonitor):
    def runTest(self) -> None:
        most = self.config.max_error_ratio
        self.note = " ".join(map(self._failed, self.summary.items)) or "The run worked at no job items."
        faults = []
        for kind, states in self.summary.items.items():
            reasons = self.summary.failed_items(kind)
            if sum(reasons.values()) > sum(states.values()) * most:
                faults.append(f"{self._failed(kind)} The most frequent reasons are {_most(reasons)}.")
        if faults:
            self.fail(
                f"{' '.join(faults)} HARVESTER_MAX_ERROR_RATIO allows {most:.0%}. "
                "Start the run again with the same arguments when the cause is gone."
            )

    def _failed(self, kind: str) -> str:
        """Returns a sentence with the number of failed items."""
        states, failed = self.summary.items[kind], sum(self.summary.failed_items(kind).values())
        absent = states.get(ItemState.FAILED, 0) - failed
        gone = f", besides {absent:,} that are not there any more" if absent > 0 else ""
        return f"{failed:,} of {counted(sum(states.values()), kind)} failed{gone}."


@monitors.name("Monitors of the project")
class ProjectMonitor(Monitor):  # type: ignore[misc]
    """Includes the project's own suites (SPIDERMON_..._MONITORS) in the verdict."""

    note = ""

    def runTest(self) -> None:
        ran = [each for each in history_of(self.data.crawler).of_project.values() if each.status != "skipped"]
        failed = [f"{each.monitor}: {each.message}" for each in ran if each.status == "failed"]
        self.note = f"{len(ran) - len(failed)} of {counted(len(ran), 'monitor')} of the project passed."
        if failed:
            self.fail(" ".join([self.note, *failed]))
        if not ran or RunSummary.from_stats(self.data.stats).interrupted:
            self.skipTest(self.note)


class RunMonitors(MonitorSuite):  # type: ignore[misc]
    """Judges a run, writes the verdict to the stats, then the report, and sends an alert if the run failed."""

    monitors = (
        FinishReasonMonitor,
        RefusalMonitor,
        RecordCountMonitor,
        DropMonitor,
        RequiredCoverageMonitor,
        CoverageDropMonitor,
        ErrorRatioMonitor,
        RejectRatioMonitor,
        UnclassifiedMonitor,
        LayoutMonitor,
        FailedItemsMonitor,
        ProjectMonitor,
    )
    monitors_finished_actions = (WriteReport,)
    monitors_failed_actions = (SendAlerts,)

    def on_monitors_finished(self, result: Any) -> None:
        judgement = Judgement.of(result)
        for failure in judgement.failures[MOST_SAID if is_repeated(self._crawler) else 0 :]:
            logger.warning("%(monitor)s: %(message)s", failure)
        logger.info("Verdict of the monitors: %s", judgement.verdict)
        history_of(self._crawler).judgement = judgement
        stats = self._crawler.stats
        stats.set_value("harvester/verdict", judgement.verdict)
        stats.set_value("harvester/verdict/failures", len(judgement.failures))
        said = [f"{failure['monitor']}: {failure['message']}" for failure in judgement.failures[:MOST_SAID]]
        stats.set_value(JUDGED, said)
        if judgement.verdict == "failed" and not stats.get_value(EXIT_CODE):
            stats.set_value(EXIT_CODE, UNMET)


def is_repeated(crawler: Crawler) -> bool:
    """Returns True if the run's summary follows on the terminal and repeats the failures."""
    if CAUSE in crawler.stats.get_stats() or crawler.settings["LOG_FILE"] or logs.is_json():
        return False
    return crawler.extensions is not None and crawler.get_extension(LiveView) is not None


def _most(counts: dict[str, int]) -> str:
    """Returns the three most frequent names, each with its count."""
    return ", ".join(f"{name} ({count:,})" for name, count in sorted(counts.items(), key=lambda x: -x[1])[:3])


def _of_records(counts: dict[str, int]) -> int:
    """Returns the sum over all kinds of records. Refused links are not records."""
    return sum(count for kind, count in counts.items() if kind != LINK)
