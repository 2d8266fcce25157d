"""The command `harvester purge`."""

from typing import Annotated

import typer

from harvester.cli.configured import load_config
from harvester.cli.confirmation import confirm
from harvester.exceptions import ServiceError, UsageError


def purge_command(
    account: Annotated[str, typer.Option(help="DID; handle or author of what was harvested.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    undo: Annotated[str, typer.Option(help="One that was purged, and may be harvested again.")] = "",
    show: Annotated[bool, typer.Option("--list", help="Only list the accounts that were purged.")] = False,
) -> None:
    """Remove an account's records, pictures and staged lines, and never fetch it again."""
    from pymongo.errors import PyMongoError

    from harvester.privacy import purge  # imports inside commands keep shell completion quick
    from harvester.project import spider_loader
    from harvester.stores.mongodb import connect_sync, unavailable
    from harvester.stores.redis import forget_log

    if bool(account) + bool(undo) + show != 1:
        who_is = "<DID, handle or author>"
        raise UsageError(f"purge: give one of --account {who_is}, --undo {who_is} or --list.")
    spider_loader()  # importing the spiders also registers the record kinds of the project
    config = load_config()
    database = connect_sync(config)
    try:
        if show:
            for row in purge.purged(database):
                print(f"{row['purged_at']:%Y-%m-%d %H:%M}  {row['_id']}  {row.get('handle', '')}")
            return
        if undo:
            print(" ".join(filter(None, purge.undo(database, undo))))
            print("It may be harvested again. What was removed is not brought back: the next harvest fetches it.")
            return
        who = purge.resolve(database, account)
        findings = purge.find(database, config, who.id)
        print(f"{who.id} {who.handle}".rstrip())
        for what, count in (+findings.counts).items():
            print(f"  {what:15} {count:10,}")
        if not findings.counts.total():
            print("  nothing is kept of it")
        if not yes:
            confirm("Remove all this, and never fetch the account again?")
        purge.purge(database, config, who, findings)
        schedules = purge.schedules_of(database, who)
    except PyMongoError as error:
        raise ServiceError(f"{unavailable(error)} Then purge again.") from None
    finally:
        database.client.close()
    print("Removed. The account is not fetched again.")
    forget_log(config)  # its addresses name the account
    for name in schedules:
        print(f"The schedule {name} names it still. To leave it out: harvester schedule change {name} -a ...")
    if findings.being_written:
        print("A crawl is running and may hold more of it on its way: purge again when that has ended.")
