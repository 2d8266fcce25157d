"""`make demo`: harvests a local copy of Bluesky with the real command, and shows what came of it.

It needs no internet. `python -m tests.demo FOLDER ACCOUNTS` keeps its files elsewhere than in data/demo, and makes the
network larger or smaller.
"""

from harvester.dashboard.summary import OPENED_BY
from harvester.sandbox.environment import settings
from tests.demo.queries import QUERIES
from tests.demo.steps import anew, ask, console, demonstrate, run, say, show
from tests.root import ROOT
from tests.sandbox.process import Sandbox


def main(folder: str, accounts: int) -> None:
    """Runs the demonstration with a network of so many accounts, its files in `folder`. Raises Failed."""
    report = f"{folder}/report.html"
    with Sandbox(accounts=accounts, seed=7, forked=False) as site:
        variables = settings(site.url, ROOT / folder) | {"HARVESTER_DATABASE": "harvester_demo"}
        with anew(variables) as database:
            say(1, f"A local copy of Bluesky answers at {site.url}: {accounts} accounts")
            say(2, "Harvesting it, with the command that harvests the real one")
            for name, value in variables.items():
                console.print(f"  {name}={value}", style="dim")
            harvest = ["scrapy", "crawl", "bluesky", "-a", f"seeds={site.handle(0)}", "-a", "depth=2"]
            harvest += ["-a", "collect=graph,profiles,posts,threads", "-a", "media=yes"]
            run(harvest)
            say(3, "Drawing a picture of it")
            run(["harvester", "report", "--out", report])
            say(4, "Asking MongoDB, in Python")
            show(f"db = {OPENED_BY}")
            for title, query in QUERIES:
                ask(database, title, query)
    say(5, "Now the real thing")
    show("scrapy crawl bluesky -a seeds=bsky.app -a max_accounts=200", "harvester report")
    console.print(f"\nThe picture of this harvest lies in {report}: open it in a browser. Or look at it live:")
    names = ("HARVESTER_DATABASE", "HARVESTER_STATE_DIR", "HARVESTER_DATA_DIR", "HARVESTER_IMAGES_STORE")
    show(*(f"export {name}={variables[name]}" for name in names), "harvester up --no-workers")


if __name__ == "__main__":
    demonstrate(main, "data/demo", 120)
