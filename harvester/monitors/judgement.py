"""The results of the monitors for a run, converted from Spidermon's result."""

from typing import Any, Literal, NamedTuple

from spidermon import settings as spidermon_settings

from harvester.masking import mask

STATUS = spidermon_settings.MONITOR.STATUS

Verdict = Literal["passed", "failed", "not judged"]


class Judged(NamedTuple):
    """The result of a monitor."""

    monitor: str
    status: Literal["passed", "failed", "skipped"]
    message: str
    """One or two sentences for people."""


class Judgement(NamedTuple):
    """The results of all monitors."""

    verdict: Verdict
    """`not judged` when every monitor was skipped."""
    monitors: list[Judged]

    @property
    def failures(self) -> list[dict[str, str]]:
        """Returns the failed monitors, each as `{monitor, message}`."""
        return [
            {"monitor": judged.monitor, "message": judged.message}
            for judged in self.monitors
            if judged.status == "failed"
        ]

    @classmethod
    def of(cls, result: Any) -> "Judgement":
        """Returns the judgement in a Spidermon MonitorResult."""
        monitors = [_judged(item) for item in result.monitor_results]
        statuses = {judged.status for judged in monitors}
        verdict: Verdict = "passed"
        if "failed" in statuses:
            verdict = "failed"
        elif statuses == {"skipped"}:
            verdict = "not judged"
        return cls(verdict, monitors)


def _judged(item: Any) -> Judged:
    name = item.monitor.monitor_name
    # A project's monitors may have several tests.
    name = name if item.monitor.method_name == "runTest" else item.monitor.name
    if item.status == STATUS.FAILURE:
        return Judged(name, "failed", mask(item.reason))
    if item.status == STATUS.ERROR:
        last_line = item.error.strip().rpartition("\n")[2]
        return Judged(name, "failed", f"The monitor itself broke: {mask(last_line)}. The log has the details.")
    if item.status == STATUS.SKIPPED:
        return Judged(name, "skipped", item.reason)
    return Judged(name, "passed", getattr(item.monitor, "note", ""))
