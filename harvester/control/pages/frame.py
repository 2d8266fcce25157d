"""The frame of every page: navigation, keys, dark and light mode, and warnings about old data."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nicegui import ui

from harvester.control.pages.components import Tag, button
from harvester.control.pages.page_context import PageContext

VIEWS = (
    ("/", "Overview"),
    ("/jobs", "Jobs"),
    ("/sites", "Sites"),
    ("/watched", "Feeds"),
    ("/schedules", "Schedules"),
    ("/runs", "Runs"),
    ("/workers", "Workers"),
    ("/records", "Records"),
    ("/dead-letters", "Dead letters"),
    ("/settings", "Settings"),
)
"""(Address, name) of the views, in the order of the navigation."""
KEYS = (
    ("/", "search"),
    ("j k", "the next row, the row before it"),
    ("Enter", "open the row"),
    ("r", "retry the row, or what failed"),
    ("?", "show this list"),
)


@contextmanager
def frame(room: PageContext, title: str, active: str, said: str = "") -> Iterator[None]:
    """Wraps the content of the page, which the `with` block builds. `active`: the name of the page's view."""
    client = ui.context.client
    ui.page_title(f"{title} - harvester")
    ui.on("page_seen", lambda event: room.broadcaster.see(client, hidden=bool(event.args["hidden"])))
    Tag("a", "To the content", "unseen skip", href="#content")
    with Tag("header", classes="top"):
        Tag("a", "harvester", "name", href="/")
        with Tag("nav", aria_label="Views"):
            for path, name in VIEWS:
                current = {"aria_current": "page"} if name == active else {}
                Tag("a", name, href=path, **current)
        with Tag("div", classes="tools"):
            Tag("button", "Dark / light", "act", type="button", data_dark=True)
            button("Keys", _keys(), data_key="help", title="?")
    Tag("div", classes="stale", id="lost", role="alert", hidden=True)
    old = Tag("div", classes="stale", role="alert", hidden=True)

    def warn(trouble: str) -> None:
        old.text = trouble
        old.set("hidden", not trouble)

    room.broadcaster.tell_trouble(warn)
    with Tag("div", classes="content", id="content"):  # NiceGUI has wrapped everything in a <main>
        Tag("h1", title)
        if said:
            Tag("p", said, "said")
        yield


def _keys() -> Callable[[], None]:
    with ui.dialog().props('aria-label="Keys"') as dialog, Tag("div", classes="box"):
        Tag("h2", "Keys")
        with Tag("dl", classes="facts"):
            for key, meaning in KEYS:
                with Tag("dt"):
                    Tag("kbd", key)
                Tag("dd", meaning)

    def show() -> None:
        dialog.open()

    return show
