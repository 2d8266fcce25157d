"""The commands `harvester sites ...`: the registry of sites, including counties."""

from pathlib import Path
from typing import Annotated

import typer

from harvester.cli.check_site import check_command
from harvester.cli.completion import site_names
from harvester.cli.configured import load_config
from harvester.cli.learn_site import learn_command
from harvester.exceptions import UsageError
from harvester.validation import did_you_mean

sites = typer.Typer(help="Sites: what the registry says of them, counties among them.", no_args_is_help=True)

sites.command("check")(check_command)
sites.command("learn")(learn_command)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@sites.command("new")
def new_command(
    url: Annotated[str, typer.Argument(help="A page of the site: its search, a parcel, a layer, a dataset.")],
    name: Annotated[str, typer.Option(help='Of the jurisdiction: "Vinton County".')],
    fips: Annotated[str, typer.Option(help="Its census code: 5 digits of a county, 10 of a town of New England.")],
    site: Annotated[str, typer.Option("--id", help="Else made of state and name: us-oh-vinton.")] = "",
    into: Annotated[
        Path | None, typer.Option(help="Folder of your entries, else HARVESTER_SITES_DIR.", show_default=False)
    ] = None,
) -> None:
    """Write the entry of a county: its platform is recognised from the page, which is kept beside it."""
    from harvester.cli.new_site import write_entry  # imports inside commands keep shell completion quick

    write_entry(url, name, fips, site, into)


@sites.command("list")
def list_command(
    state: Annotated[str, typer.Option(metavar="CODE", help="Only those of this state, such as OH.")] = "",
    platform: Annotated[str, typer.Option(help="Only those on this platform, such as vgsi.")] = "",
    as_json: Json = False,
) -> None:
    """List the sites of the registry."""
    from harvester.cli import sites_views as views
    from harvester.platforms import platform_names
    from harvester.sites import load_sites

    state = state.upper()
    _refuse_unknown("--state", "state", state, views.STATE_CODES)
    _refuse_unknown("--platform", "platform", platform, platform_names())
    views.print_sites([site for site in load_sites() if views.is_of(site, state, platform)], as_json)


@sites.command("find")
def find_command(
    words: Annotated[list[str], typer.Argument(help="Of its state, name or FIPS code, or the beginnings of them.")],
    as_json: Json = False,
) -> None:
    """Find sites by state, name or FIPS code; all words must fit."""
    from harvester.cli import sites_views as views
    from harvester.sites import load_sites

    wanted = views.words_of(" ".join(words))
    if not wanted:
        raise UsageError("find: give a state, a name or a FIPS code.")
    views.print_sites([site for site in load_sites() if views.fits(site, wanted)], as_json)


@sites.command("show")
def show_command(
    name: Annotated[
        str, typer.Argument(metavar="ID", help="Of the site, as `list` shows it.", autocompletion=site_names)
    ],
    as_json: Json = False,
) -> None:
    """Show what is known of a site, how it is asked, and what to type to harvest it."""
    from harvester.cli import sites_views as views

    views.print_site(views.site_named(name), load_config(), as_json)


def _refuse_unknown(option: str, what: str, given: str, known: list[str]) -> None:
    if given and given not in known:
        there_are = f"; there are {', '.join(known)}."
        raise UsageError(f"{option}: {given!r} is no {what}{did_you_mean(given, known) or there_are}")
