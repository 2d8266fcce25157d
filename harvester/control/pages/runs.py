"""Runs with the verdicts of their monitors, a chart of the last hundred, and single runs with the end of the log."""

from nicegui import ui

from harvester.control.pages.components import (
    GREY,
    LINES,
    Bar,
    Cell,
    Facts,
    RowsTable,
    TableRow,
    Tag,
    address,
    at,
    button,
    state_cell,
)
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext
from harvester.control.services.runs import LogTail, RunReport, RunRow, Runs, RunsPage
from harvester.exceptions import UsageError
from harvester.formatting import counted, duration, typed_arguments

MOST = 100
COLUMNS = ("began", "run", "spider", "state", "monitors", "took", "+records", "+rejected", "ended because of")
EMPTY = """No run has been recorded yet. Runs appear here when workers, or `harvester crawl`, begin:

harvester worker"""
_COLOURS = {"passed": "#2f9e58", "failed": "#d64545", "": "#8793a3"}
"""Colours of bars, by verdict."""


async def view(room: PageContext, spider: str, state: str) -> None:
    with frame(room, "Runs", "Runs"):
        with Tag("section", classes="card", aria_label="Records of the last runs"):
            Tag("h2", "Records of the last runs, the latest on the right")
            chart = _Chart()
        with Tag("section", classes="card", aria_label="Runs"):
            rows = RowsTable("The latest first", COLUMNS, "No run is like this." if spider or state else EMPTY)

        def show(page: RunsPage) -> None:
            rows.show([_row(run) for run in page.runs])
            chart.show(page.runs)

        await room.broadcaster.watch(
            ("runs", spider, state), lambda: Runs(room.here.jobs).list(spider, state, most=MOST), show
        )


class _Chart:
    def __init__(self) -> None:
        options = {
            "grid": {"left": 56, "right": 12, "top": 12, "bottom": 26},
            "xAxis": {"type": "category", "data": [], "axisLabel": {"show": False}},
            "yAxis": {"type": "value", "min": 0, "axisLabel": {"color": GREY}, "splitLine": LINES},
            "tooltip": {},
            "animation": False,
            "series": [{"type": "bar", "data": [], "barMinHeight": 3, "barMaxWidth": 24}],
        }
        self._chart = ui.echart(options).classes("chart").props('role="img" aria-label="Records of the last runs"')
        self._said = Tag("p", "", "said")

    def show(self, runs: list[RunRow]) -> None:
        self._chart.visible = bool(runs)
        failed = sum(run.verdict == "failed" for run in runs)
        self._said.text = f"{counted(len(runs), 'run')}, of which monitors failed {failed:,}." if runs else "None yet."
        shown = list(reversed(runs))
        names = [f"{run.spider} {at(run.started_at)}" for run in shown]
        values = [
            {"value": run.records, "itemStyle": {"color": _COLOURS.get(run.verdict, _COLOURS[""])}} for run in shown
        ]
        options = self._chart.options
        if (options["xAxis"]["data"], options["series"][0]["data"]) != (names, values):
            options["xAxis"]["data"], options["series"][0]["data"] = names, values
            self._chart.update()


def _row(run: RunRow) -> TableRow:
    took = duration(run.seconds) if run.finished_at else f"{duration(run.seconds)} so far"
    monitors = state_cell(run.verdict, run.verdict + (f": {', '.join(run.failed)}" if run.failed else ""))
    cells: list[Cell | str | int] = [at(run.started_at), Cell(run.id, address("runs", run.id)), run.spider]
    cells += [state_cell("died" if run.state == "lost" else run.state, run.state), monitors, took]
    cells += [run.records, run.rejected, run.finish_reason.replace("_", " ")]
    return TableRow(run.id, cells)


async def view_one(room: PageContext, run: str) -> None:
    """Shows a run. Raises UnknownRun."""
    runs = Runs(room.here.jobs)
    await runs.report(run)
    with frame(room, run, "Runs"):
        with Tag("section", classes="card", aria_label="Run"):
            facts = Facts()
            bar = Bar().style("margin-top: 14px")
        with Tag("div", classes="two"):
            with Tag("section", classes="card", aria_label="Monitors"):
                monitors = RowsTable("Monitors that failed", ("monitor", "what it says"), "None failed.")
            with Tag("section", classes="card", aria_label="Errors"):
                errors = RowsTable("Errors of requests", ("outcome", "where"), "No request failed.")
        with Tag("div", classes="two"):
            with Tag("section", classes="card", aria_label="Records"):
                records = RowsTable("Records", ("kind", "+stored", "+rejected"), "It stored none.")
            with Tag("section", classes="card", aria_label="Outcomes"):
                outcomes = RowsTable("Outcomes of requests", ("outcome", "+requests"), "No request has ended yet.")
        await _log(room, run)
        with ui.expansion("All stats").classes("card").style("width: 100%"):
            stats = RowsTable("Stats", ("name", "value"), "None.")

        def show(report: RunReport) -> None:
            facts.show(_facts(report))
            items = next(iter(report.items.values()), {})
            bar.show([(state, number, "") for state, number in items.items()])
            bar.visible = bool(items)
            monitors.show([TableRow(each.name, [each.name, each.said]) for each in report.failures])
            errors.show([TableRow(f"{n}", [each.name, each.said]) for n, each in enumerate(report.errors)])
            kinds = {**report.counts, **report.rejected}
            records.show(
                [TableRow(kind, [kind, report.counts.get(kind, 0), report.rejected.get(kind, 0)]) for kind in kinds]
            )
            outcomes.show(
                [TableRow(name, [name.replace("_", " "), number]) for name, number in report.run.outcomes.items()]
            )
            stats.show([TableRow(name, [name, value]) for name, value in report.stats.items()])

        await room.broadcaster.watch(("run", run), lambda: runs.report(run), show)


async def _log(room: PageContext, run: str) -> None:
    """Shows the last lines, updated until the user pauses it."""
    with Tag("section", classes="card", aria_label="Log"):
        Tag("h2", "The end of its log")
        paused = False
        text = Tag("pre", "", "log", tabindex="0", aria_label="Log")

        def pause() -> None:
            nonlocal paused
            paused = not paused
            button_.text = "Go on" if paused else "Pause"

        button_ = button("Pause", pause)
        button_.style("margin-top: 8px")

    async def read() -> LogTail:
        return await Runs(room.here.jobs).log(run)

    def show(tail: LogTail) -> None:
        if not paused:
            text.text = ("...\n" if tail.cut else "") + "\n".join(tail.lines)

    try:
        await room.broadcaster.watch(("log", run), read, show)
    except UsageError as error:
        text.text = str(error)
        button_.visible = False


def _facts(report: RunReport) -> list[tuple[str, str | Cell]]:
    run = report.run
    job = [("job", Cell(run.job, address("jobs", run.job)))] if run.job else []
    return [
        ("state", state_cell(run.state)),
        ("monitors", state_cell(run.verdict)),
        ("spider", run.spider),
        *job,
        ("arguments", typed_arguments(report.arguments)),
        ("began", at(run.started_at)),
        ("ended", at(run.finished_at)),
        ("took", duration(run.seconds)),
        ("ended because of", run.finish_reason.replace("_", " ")),
        ("said", report.message),
        ("exit code", "" if run.exit_code is None else str(run.exit_code)),
        ("process", f"{report.pid} on {run.host}"),
        ("log", report.log),
        ("report", report.report),
    ]
