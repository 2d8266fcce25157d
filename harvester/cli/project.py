"""The commands `harvester project`: add harvester to a Scrapy project, and check the project's spiders."""

from typing import TYPE_CHECKING

import typer

from harvester.exceptions import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harvester.spiders.checking import ProjectFinding

LINE = 'ADDONS = {"harvester.Addon": 500}'
MORE = 'ADDONS = {**ADDONS, "harvester.Addon": 500}'
"""The line for a project with other add-ons."""

project = typer.Typer(help="A Scrapy project of your own.", no_args_is_help=True)


@project.command("add")
def add() -> None:
    """Add harvester to the Scrapy project in this folder. It appends one line to the settings."""
    from harvester.addon import is_brought_into
    from harvester.project import project_settings, settings_file

    path = settings_file()
    if is_brought_into(project_settings()):
        print(f"harvester is in this project already: {path}")
        return
    try:
        text = path.read_text("utf-8")
        line = MORE if "ADDONS" in text else LINE
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}\n{line}\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from None
    print(f"Added to {path}:\n\n  {line}\n\nNow: harvester project check")


@project.command("check")
def check() -> None:
    """Read all spiders without network: list refusals, settings without effect and requests that cannot be saved."""
    from harvester.project import brought_settings, loader_of
    from harvester.spiders.checking import Kind, added, check_spider

    settings = brought_settings()
    loader = loader_of(settings)
    names = loader.list()
    found: dict[ProjectFinding, None] = {}
    for name in names:
        found |= dict.fromkeys(check_spider(settings, loader.load(name)))
    print(f"{len(names):,} spiders of {settings['BOT_NAME']}")
    _print("Beside harvester's", (f"{name}: {', '.join(own)}" for name, own in added(settings).items()))
    for kind, title in (
        (Kind.REFUSED, "Refused, until it is changed"),
        (Kind.NOT_KEPT, "Not kept if the process dies, and refused by harvester worker"),
        (Kind.NO_EFFECT, "Without effect"),
    ):
        _print(title, (f"{each.where}: {each.text}" for each in found if each.kind is kind))
    if any(each.kind is Kind.REFUSED for each in found):
        raise typer.Exit(UsageError.exit_code)


def _print(title: str, lines: "Iterable[str]") -> None:
    lines = list(lines)
    if lines:
        print(f"\n{title}")
        for line in lines:
            print(f"  {line}")
