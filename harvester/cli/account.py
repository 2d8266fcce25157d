"""The command `harvester account`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from harvester.cli.configured import load_config
from harvester.cli.printing import at, new_console, parts, print_json, shown
from harvester.exceptions import UsageError

if TYPE_CHECKING:
    from pymongo.database import Database

Document = dict[str, Any]


def account_command(
    account: Annotated[str, typer.Argument(help="DID or handle.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what became of an account in each job, why, and what is kept of it."""
    from pymongo.errors import PyMongoError

    from harvester.project import spider_loader
    from harvester.stores.mongodb import connect_sync, unavailable

    spider_loader()  # importing the spiders also registers the record kinds of the project
    database = connect_sync(load_config())
    try:
        found = _look(database, account)
    except UnicodeEncodeError:
        raise UsageError(f"{account!r} holds bytes that are no UTF-8.") from None
    except PyMongoError as error:
        raise unavailable(error) from None
    finally:
        database.client.close()
    if as_json:
        print_json(found)
    else:
        _print(found)


def _look(database: "Database[Document]", account: str) -> Document:
    """Collects everything known of an account. Raises UsageError when nothing is."""
    from harvester.items import RECORDS
    from harvester.parsers.bluesky.scrub import PURGED
    from harvester.privacy.purge import PurgedAccount, resolve

    name = account.strip().removeprefix("@")
    try:
        who = resolve(database, account)
    except UsageError:
        if name.startswith("did:") or database["profiles"].count_documents({"handle": name}):
            raise
        who = PurgedAccount("", name)  # the seed may never have been resolved
    keys = [key for key in (who.id, who.handle.lower()) if key]
    items = [
        {"job": job["_id"], **item}
        for job in database["jobs"].find({"spider": "bluesky"}, {"_id": 1}, sort=[("created_at", -1)])
        for item in database["job_items"].find(
            {"job": job["_id"], "kind": {"$in": ["account", "seed"]}, "key": {"$in": keys}}
        )
    ]
    counts = {
        kind.COLLECTION: number
        for kind in RECORDS.values()
        if kind.OWNERS and (number := database[kind.COLLECTION].count_documents({kind.OWNERS[0]: who.id}))
    }
    purged = database[PURGED].find_one({"_id": who.id})
    if not (items or counts or purged):
        raise UsageError(f"Nothing is known of {name!r} here.")
    profile = database["profiles"].find_one({"_id": who.id}) or {}
    return {
        "did": who.id,
        "handle": profile.get("handle", who.handle),
        "display_name": profile.get("display_name"),
        "opt_outs": profile.get("opt_outs", []),
        "purged_at": purged and purged["purged_at"],
        "records": counts,
        "items": items,
    }


def _print(found: Document) -> None:
    console = new_console()
    name = f", {shown(found['display_name'])}" if found["display_name"] else ""
    console.print(f"{found['handle']} {found['did']}{name}".strip())
    if found["purged_at"]:
        console.print(f"  purged {at(found['purged_at'])}: it is not fetched any more")
    if found["opt_outs"]:
        console.print(f"  does not want to be collected: {', '.join(map(shown, found['opt_outs']))}")
    console.print(f"  kept: {parts(found['records']) or 'nothing'}")
    for item in found["items"]:
        outcome = f" ({item['outcome']})" if item.get("outcome") else ""
        why = f": {shown(item['reason'])}" if item.get("reason") else ""
        console.print(f"\n{item['job']}: {item['kind']} {item['state']}{outcome}{why}")
        if stage := item.get("stage"):
            console.print(f"  stage {shown(stage)}")
        for past in item.get("history", []):
            reason = f": {shown(past['reason'])}" if past.get("reason") else ""
            console.print(f"  attempt {past['attempt']}: {past.get('outcome') or past['state']}{reason}")
        if due_at := item.get("due_at"):
            console.print(f"  is tried again at {at(due_at)}")
