"""The command `harvester sites learn`: suggests lines of TOML for unknown labels in saved pages."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harvester.cli.completion import site_names
from harvester.exceptions import PageFailed, ParseError, UsageError

MAX_SAMPLE = 60
"""Maximum number of characters of a value that are shown."""


def learn_command(
    name: Annotated[str, typer.Argument(metavar="ID", help="Of the site.", autocompletion=site_names)],
    pages: Annotated[list[Path], typer.Argument(metavar="PAGE...", help="Saved pages of parcels, or of its table.")],
) -> None:
    """Propose what the labels of saved pages mean that nobody reads, as lines for the site's entry. Writes nothing."""
    from harvester.cli.new_site import toml_of
    from harvester.cli.sites_views import site_named
    from harvester.items import Provenance
    from harvester.parsers.counties.columns import Source
    from harvester.parsers.counties.learn import proposals
    from harvester.spiders.counties.saved import PLATFORMS, read_unchecked

    records = site_named(name).property
    if records is None or records.platform not in PLATFORMS:
        raise UsageError(f"learn: {name} publishes no property records that harvester reads.")
    field = str(records.parameters.get("parcel_id_field", ""))
    source = Source(name, records.fips, field, records.platform, tuple(records.labels.items()))
    provenance, read = Provenance(records.base_url, datetime.now(UTC), records.platform), []
    for page in pages:
        try:
            read.append(read_unchecked(records.platform, page.read_bytes(), source, provenance))
        except OSError as error:
            raise UsageError(f"learn: {page} cannot be read: {error.strerror}.") from None
        except (ParseError, PageFailed) as error:
            raise UsageError(f"learn: {page} is no page of a parcel on {records.platform}: {error}.") from None
    found = proposals(read)
    lines = [
        f"{toml_of(each.label)} = {toml_of(each.field)}  # {_seen(each.pages, len(read), each.sample)}"
        for each in found
        if each.field
    ]
    if lines:
        print("# Compare each line with the pages, then copy it into the site's entry:")
        print(f"[{name}.property.labels]")
        print("\n".join(lines))
    else:
        print("# Nothing is proposed.")
    left = [each for each in found if not each.field]
    if left:
        print('\n# Nobody reads these either. Give one a field, or "ignored":')
        print("\n".join(f"# {toml_of(each.label)}  # {_seen(each.pages, len(read), each.sample)}" for each in left))


def _seen(number: int, of: int, sample: str) -> str:
    shown = " ".join(sample.split())
    return f"{number:,} of {of:,}: {shown[:MAX_SAMPLE]}{'...' if len(shown) > MAX_SAMPLE else ''}"
