"""The command `harvester deploy`."""

from typing import Annotated

import typer

from harvester.cli.configured import load_config
from harvester.exceptions import UsageError

DEFAULT_URL = "http://127.0.0.1:6800"


def deploy_command(
    url: Annotated[
        str,
        typer.Option(
            help="Address of the Scrapyd.", show_default=f"url in [deploy] of scrapy.cfg, or else {DEFAULT_URL}"
        ),
    ] = "",
    project: Annotated[
        str,
        typer.Option(help="Name of the project there.", show_default="project in [deploy], or else its package's name"),
    ] = "",
    version: Annotated[str, typer.Option(help="Version there, instead of the time.")] = "",
) -> None:
    """Deploy the Scrapy project of this folder to a Scrapyd; a version that does not run there is removed again."""
    import asyncio

    from harvester.project import be_in_project, brought_settings, loader_of
    from harvester.worker.egg import build_egg
    from harvester.worker.scrapyd import deploy, new_version  # imports inside commands keep shell completion quick

    config = load_config()
    folder, module, options = be_in_project()
    settings = brought_settings()
    modules = settings.getlist("SPIDER_MODULES")
    if not loader_of(settings).list():
        raise UsageError(f"{folder} has no spiders: SPIDER_MODULES = {modules} names none.")
    package, dot, _ = module.partition(".")
    project = project or options.get("project") or (package if dot else settings["BOT_NAME"])
    print(f"The project of {folder}, with the settings {module}", flush=True)
    egg = build_egg(folder, module, modules)
    deployed = asyncio.run(
        deploy(config, url or options.get("url") or DEFAULT_URL, project, version or new_version(), egg)
    )
    print(f"Deployed {project} {deployed.version} ({len(egg) / 1000:,.0f} kB): {', '.join(deployed.spiders)}")
    if deployed.default != deployed.version:
        print(
            f"Jobs that name no version still use {deployed.default}, which Scrapyd takes for newer:"
            f" schedule with _version={deployed.version}, or remove that one."
        )
