"""The command `harvester`. Each command prints text for people, and exits with the code of its error."""

import contextlib
import errno
import logging
import os
import sys
from functools import cache
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup
from typer.main import get_command

from harvester import __version__, logs
from harvester.cli.account import account_command
from harvester.cli.alert import alert_command
from harvester.cli.completion import spider_names
from harvester.cli.crawl import SCRAPY_TOOLS, crawl_command, import_command, scrapy_command
from harvester.cli.db import db
from harvester.cli.deploy import deploy_command
from harvester.cli.endpoints import endpoints
from harvester.cli.export import export_command
from harvester.cli.feed import feed_command
from harvester.cli.flow import flow
from harvester.cli.frontier import frontier
from harvester.cli.gc import gc_command
from harvester.cli.jobs_items import jobs
from harvester.cli.project import project
from harvester.cli.publish import publish
from harvester.cli.purge import purge_command
from harvester.cli.report import report_command
from harvester.cli.runs import runs
from harvester.cli.sandbox import sandbox_command
from harvester.cli.schedule import schedule
from harvester.cli.sites import sites
from harvester.cli.tokens import tokens
from harvester.cli.up import up_command
from harvester.cli.webhooks import webhooks
from harvester.cli.worker import worker_command
from harvester.exceptions import HarvesterError, StorageError, UsageError
from harvester.masking import mask
from harvester.worker.interrupts import code_of, end_on_sigterm_as_on_ctrl_c

ORDER = (
    *("up", "doctor", "project", "spiders", "sites", "flow", "sandbox"),
    *("crawl", "jobs", "schedule", "endpoints", "feed", "worker", "frontier", "deploy"),
    *("runs", "report", "export", "account", "db", "import", "publish", "webhooks"),
    *("alert", "tokens", "gc", "purge", "version"),
    *SCRAPY_TOOLS,
)
"""The order of commands in the help: first the ones that users need first."""


class InOrder(TyperGroup):
    """Lists commands in ORDER, because Typer would list groups after single commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


# Pretty tracebacks would print local variables, and secrets with them.
app = typer.Typer(
    cls=InOrder,
    help="Harvests public data, and keeps it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
spiders = typer.Typer(help="What can be harvested.", no_args_is_help=True)
# Scrapy parses the arguments of these commands.
_AS_TYPED = {"allow_extra_args": True, "ignore_unknown_options": True}
BEGIN, RUN, RESULTS, CARE = "To begin", "To run", "What came of it", "To look after it"
TOOLS = "Scrapy's tools"
app.command("up", rich_help_panel=BEGIN)(up_command)
app.add_typer(project, name="project", rich_help_panel=BEGIN)
app.add_typer(spiders, name="spiders", rich_help_panel=BEGIN)
app.add_typer(sites, name="sites", rich_help_panel=BEGIN)
app.add_typer(flow, name="flow", rich_help_panel=BEGIN)
app.command("sandbox", context_settings={"allow_interspersed_args": False}, rich_help_panel=BEGIN)(sandbox_command)
app.command("crawl", context_settings=_AS_TYPED, add_help_option=False, rich_help_panel=RUN)(crawl_command)
app.command("feed", rich_help_panel=RUN)(feed_command)
app.add_typer(jobs, name="jobs", rich_help_panel=RUN)
app.add_typer(schedule, name="schedule", rich_help_panel=RUN)
app.add_typer(endpoints, name="endpoints", rich_help_panel=RUN)
app.command("worker", rich_help_panel=RUN)(worker_command)
app.add_typer(frontier, name="frontier", rich_help_panel=RUN)
app.command("deploy", rich_help_panel=RUN)(deploy_command)
app.add_typer(runs, name="runs", rich_help_panel=RESULTS)
app.command("export", rich_help_panel=RESULTS)(export_command)
app.add_typer(db, name="db", rich_help_panel=RESULTS)
app.command("account", rich_help_panel=RESULTS)(account_command)
app.command("import", context_settings=_AS_TYPED, add_help_option=False, rich_help_panel=RESULTS)(import_command)
app.add_typer(publish, name="publish", rich_help_panel=RESULTS)
app.add_typer(webhooks, name="webhooks", rich_help_panel=RESULTS)
app.command("alert", rich_help_panel=CARE)(alert_command)
app.add_typer(tokens, name="tokens", rich_help_panel=CARE)
app.command("purge", rich_help_panel=CARE)(purge_command)
app.command("gc", rich_help_panel=CARE)(gc_command)
for _name, _help in SCRAPY_TOOLS.items():
    app.command(_name, context_settings=_AS_TYPED, add_help_option=False, rich_help_panel=TOOLS, help=_help)(
        scrapy_command
    )

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a file, such as standard output, that cannot be written to its end."""
MAX_COLUMNS = 10_000
"""Number of columns that is too large for a real terminal."""
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Harvests public data, and keeps it."""


@app.command(rich_help_panel=CARE)
def version() -> None:
    """Print the version."""
    print(__version__)


@app.command(rich_help_panel=BEGIN)
def doctor(
    site: Annotated[str, typer.Option(help="Address that should be reachable, instead of Bluesky's.")] = "",
) -> None:
    """Check servers, browser, disk, clock and network, and say how to mend what is missing."""
    from harvester.cli import doctor as doctor_module  # imports inside commands keep shell completion quick
    from harvester.config import TOLD, read_config
    from harvester.download.addresses import unusable

    if site and (fault := unusable(site)):
        raise UsageError(f"--site: {site!r} cannot be asked: {fault}.")
    console = Console(highlight=False, soft_wrap=True)
    failures = 0
    try:
        config = read_config()
        findings = doctor_module.examine(config, site or f"{config.bluesky_service.rstrip('/')}/xrpc/_health")
    except UsageError as error:
        findings = doctor_module.examine_without_settings(error)
    was_told = TOLD in os.environ
    os.environ[TOLD] = "1"  # a finding already names misspelt settings, and a warning would repeat it
    try:
        for finding in findings:
            indented = finding.text.replace("\n", "\n" + " " * 24)
            console.print(
                Text.assemble((f"{finding.level:5} ", STYLES[finding.level]), f"{finding.subject:17} {indented}")
            )
            if finding.remedy:
                console.print(Text(f"{'':23} to mend it: {finding.remedy}"))
            failures += finding.level is doctor_module.Level.FAIL
    finally:
        if not was_told:
            del os.environ[TOLD]
    raise typer.Exit(1 if failures else 0)


app.command("report", rich_help_panel=RESULTS)(report_command)


@spiders.command("new")
def new_spider(
    name: Annotated[str, typer.Argument(help="Of the spider: small letters, digits and _.")],
    url: Annotated[str, typer.Argument(help="A page of the site, HTML or JSON.")],
) -> None:
    """Write the beginning of a spider: spider, parser, the page as it is now, and a test."""
    from harvester.cli.new_spider import write_spider

    write_spider(name, url)


@spiders.command("list")
def list_spiders() -> None:
    """List the spiders."""
    from harvester.project import spider_loader

    loader = spider_loader()
    for name in sorted(loader.list()):
        summary = (loader.load(name).__doc__ or "").strip().partition("\n")[0]
        print(f"{name:20} {summary}")


@spiders.command()
def show(name: Annotated[str, typer.Argument(help="Name of the spider.", autocompletion=spider_names)]) -> None:
    """Describe a spider and its arguments."""
    from inspect import cleandoc

    from harvester.project import load_spider
    from harvester.spiders.arguments import print_arguments

    spider = load_spider(name)
    print(f"{cleandoc(spider.__doc__ or '')}\n", flush=True)
    print_arguments(spider)


def main() -> None:
    """Entry point: runs the command and turns its error into a message and an exit code."""
    _have_streams()
    _have_a_width()
    end_on_sigterm_as_on_ctrl_c()
    code: Any = None
    fault: OSError | None = None
    try:
        _command()()
    except HarvesterError as error:
        _say(mask(str(error)))
        code = error.exit_code
    except SystemExit as ended:
        code = ended.code
    except UnicodeEncodeError as error:
        odd = error.object[error.start : error.end]
        word = next((each for each in sys.argv[1:] if odd in each), None)
        if word is None:
            raise
        _say(f"{mask(repr(word))} holds bytes that are no UTF-8.")
        code = UsageError.exit_code
    except OSError as error:
        if error.errno in _NO_ROOM:
            fault = error
        elif _has_lost_its_folder():
            _say("The folder in which this runs was removed: change to one that is there (cd), and call it again.")
            code = UsageError.exit_code
        else:
            raise
    finally:
        fault = _let_go_of_closed_streams() or fault
    if fault:
        _say(f"{fault.filename or 'The output'} cannot be written: {fault.strerror}. Make room; what was done stays.")
    sys.exit(code_of(code) if code else (StorageError.exit_code if fault else 0))


def _has_lost_its_folder() -> bool:
    """Returns True if the working folder was removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # standard error may be full or closed
        logs.say(text, logging.ERROR)


def _have_streams() -> None:
    """Replaces closed streams by the null device, so that no opened file gets their number and their output.

    Characters that the encoding of a stream lacks are written with a backslash.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(number, True)
        os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def _have_a_width() -> None:
    """Ignores a COLUMNS that cannot be a terminal's width: with 0 nothing would be printed."""
    width = os.environ.get("COLUMNS", "")
    if not (width.isdecimal() and 0 < int(width) < MAX_COLUMNS):
        os.environ.pop("COLUMNS", None)


@cache
def _command() -> Any:
    """Returns all commands as click objects. They are created once, even if a process calls `main` repeatedly."""
    command = get_command(app)
    _leave_flags_without_type(command)
    return command


def _leave_flags_without_type(command: Any, parent: typer.Context | None = None) -> None:
    """Removes `<bool>`, which Typer's help shows behind options without a value."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    for param in command.get_params(context):
        if getattr(param, "is_flag", False):
            param.metavar = ""
    for below in getattr(command, "commands", {}).values():
        _leave_flags_without_type(below, context)


def _let_go_of_closed_streams() -> OSError | None:
    """Redirects broken streams, since Python would write to them at exit and replace the exit code by 120.

    Returns the error if standard output is incomplete, except when its reader has left.
    """
    fault = None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout and error.errno in _NO_ROOM:
                fault = error
    return fault
