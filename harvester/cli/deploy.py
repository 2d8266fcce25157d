"""The command `harvester deploy`."""

from typing import Annotated

import typer

from harvester.cli.configured import load_config


def deploy_command(
    url: Annotated[str, typer.Option(help="Address of the Scrapyd.")] = "http://127.0.0.1:6800",
    project: Annotated[str, typer.Option(help="Name of the project there.")] = "harvester",
    version: Annotated[str, typer.Option(help="Version there, instead of the time.")] = "",
) -> None:
    """Build the egg and deploy it to a Scrapyd; a version that does not run there is removed again."""
    import asyncio

    from harvester.worker.egg import build_egg, checkout
    from harvester.worker.scrapyd import deploy, new_version  # imports inside commands keep shell completion quick

    config = load_config()
    egg = build_egg(checkout())
    deployed = asyncio.run(deploy(config, url, project, version or new_version(), egg))
    print(f"Deployed {project} {deployed.version} ({len(egg) / 1000:,.0f} kB): {', '.join(deployed.spiders)}")
    if deployed.default != deployed.version:
        print(
            f"Jobs that name no version still use {deployed.default}, which Scrapyd takes for newer:"
            f" schedule with _version={deployed.version}, or remove that one."
        )
