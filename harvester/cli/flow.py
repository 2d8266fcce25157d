"""The commands `harvester flow ...`: checking a recording, and running it for one row."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from harvester.cli.assignments import pairs
from harvester.cli.configured import load_config
from harvester.exceptions import LEFT, ServiceError

flow = typer.Typer(help="Recorded browser flows: look at one, and try it.", no_args_is_help=True)

Recorded = Annotated[Path, typer.Argument(metavar="FILE", help="A recording of Chrome's Recorder, exported as JSON.")]


@flow.command("check")
def check_command(file: Recorded) -> None:
    """Say what a recording would do, and what of it is wrong, and where."""
    from harvester.sites.recording import parse_flow, read_files, refused, words_of
    from harvester.spiders.flow import faults_of

    flow = parse_flow(*read_files(file))
    print(flow.recording.title)
    for number, step in enumerate(flow.recording.steps, 1):
        follows = ", and waits for the page that follows" if step.asserted_events else ""
        print(f"{number:>4}  {words_of(step)}{follows} (at most {flow.recording.seconds(step):g} s)")
    print(f"Columns that each row must have: {', '.join(flow.columns) or 'none'}.")
    print(f"Kept of each row: {', '.join(flow.collected.words) or 'nothing'}.")
    if faults := list(faults_of(flow, load_config())):
        raise refused("the recording", faults)


@flow.command("run")
def run_command(
    file: Recorded,
    row: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="A value of the row; give it for each column.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for what is collected.")] = Path("flow"),
    headed: Annotated[bool, typer.Option("--headed", help="Show the browser's window.")] = False,
    slow: Annotated[int, typer.Option(min=0, max=10_000, help="Milliseconds to wait after each step.")] = 0,
) -> None:
    """Do a recording for one row, as a crawl does it, and show what comes of it."""
    from scrapy.http import Response

    from harvester.browser.chromium import HEADED, find_chromium
    from harvester.cli.one_page import ask
    from harvester.cli.printing import print_json
    from harvester.internal_meta import FLOW, FLOWN
    from harvester.outcomes import Outcome, classify
    from harvester.sites.recording import read_files
    from harvester.spiders.flow import files_of, read_checked, request_of
    from harvester.stores.objects import LocalStore

    config = load_config()
    flow = read_checked(*read_files(file), config).filled(pairs("--row", row or ()))
    find_chromium(config, headed=headed)
    request = request_of(flow, dont_retry=True)
    request.meta[FLOW]["slow_ms"] = slow
    came = ask(request, **{HEADED: headed})
    if not isinstance(came, Response):
        raise ServiceError(f"run: {flow.start_url} does not come: {came.value if came else 'see above'}")
    flown = came.meta[FLOWN]
    for number, (words, seconds) in enumerate(flown.steps, 1):
        print(f"{number:>4}  {words}: {seconds:.1f} s")
    store, files = LocalStore(str(out)), files_of(came)
    for each in files:
        store.write(each.name, each.content)
    print_json({"url": came.url, "fields": flown.fields, "files": [store.address(each.name) for each in files]})
    if flown.no_results:
        print("The page shows that there is nothing for this row.")
    verdict = classify(came)
    said = [f"{flown.outcome}: {flown.said(flow.recording)}"] if flown.failed else []
    said += [f"{verdict.outcome}: {verdict.reason}, says the last page"] if verdict.outcome is not Outcome.OK else []
    if said:
        print("\n".join(said), file=sys.stderr)
        raise typer.Exit(LEFT)
