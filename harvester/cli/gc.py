"""The command `harvester gc`."""

from typing import Annotated

import typer

from harvester.cli.configured import load_config


def gc_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    keep: Annotated[
        str,
        typer.Option(metavar="KIND=AGE,SIZE ...", help="Instead of HARVESTER_RETENTION: logs=30d,2GB rejects=180d."),
    ] = "",
) -> None:
    """Remove old logs, rejects, reports, exports and the like, never what a job still needs."""
    from harvester.cli.printing import new_console, new_table
    from harvester.exceptions import StorageError, UsageError
    from harvester.formatting import size
    from harvester.worker.retention import SETTING, read_bounds, sweep, total

    config = load_config()
    bounds = read_bounds(keep, "--keep") if keep else read_bounds(config.retention)
    if not bounds:
        raise UsageError(f"{SETTING} is empty, so all is kept: give --keep, as --keep 'logs=30d rejects=180d,5GB'.")
    swept = sweep(config, bounds, dry_run=dry_run)
    gone = "would go" if dry_run else "removed"
    table = new_table("kind", "files", "size", gone, "size", "old but needed")
    for each in (*swept, total(swept)):
        before = (f"{each.files:,}", size(each.size_bytes))
        table.add_row(each.kind, *before, f"{each.removed:,}", size(each.removed_bytes), f"{each.needed:,}")
    new_console().print(table)
    if faults := [fault for each in swept for fault in each.faults]:
        more = f" and {len(faults) - 1:,} more" if len(faults) > 1 else ""
        raise StorageError(f"{len(faults):,} files cannot be removed: {faults[0]}{more}.")
