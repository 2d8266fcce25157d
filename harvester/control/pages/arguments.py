"""Spiders that take items, and fields for their arguments."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from harvester.control.pages.components import Field, Tag, entry
from harvester.project import spider_loader

JOB = "job"
"""An argument for the source of items; pages do not offer it."""

Known = Mapping[str, tuple[str, tuple[str, ...], dict[str, Any]]]
"""Name of a spider -> purpose, kinds of items, JSON Schema of the arguments."""


@cache
def spiders() -> Known:
    """Returns the spiders that take items."""
    loader = spider_loader()
    found = {}
    for name in sorted(loader.list()):
        spider: Any = loader.load(name)
        if kinds := getattr(spider, "ITEM_KINDS", ()):
            about = (spider.__doc__ or "").strip().partition("\n")[0]
            found[name] = about, tuple(kinds), spider.Arguments.model_json_schema()
    return found


class Arguments(Tag):
    """Fields for the arguments of a spider. An empty field leaves the default."""

    def __init__(self, *without: str) -> None:
        """`without`: arguments to leave out, besides JOB."""
        super().__init__("div", classes="two")
        self._without = {*without, JOB}
        self._fields: dict[str, Any] = {}

    def show(self, schema: Mapping[str, Any]) -> None:
        self.clear()
        self._fields = {}
        with self:
            for name, field in schema.get("properties", {}).items():
                if name not in self._without:
                    self._fields[name] = entry(_field(name, field, name in schema.get("required", ())))

    @property
    def given(self) -> dict[str, str]:
        return {name: text for name, field in self._fields.items() if (text := str(field.value or "").strip())}


def first(known: Known, spider: str = "") -> str:
    """Returns the preselected spider."""
    return spider if spider in known else "bluesky" if "bluesky" in known else next(iter(known))


def _field(name: str, schema: Mapping[str, Any], required: bool) -> Field:
    default, about = schema.get("default"), str(schema.get("description", ""))
    said = "yes" if default is True else "no" if default is False else default
    said = ",".join(map(str, default)) if isinstance(default, list) else said
    words = " (needed)" if required else f" (else: {said})" if said not in (None, "") else ""
    options = schema.get("enum") or (["yes", "no"] if schema.get("type") == "boolean" else None)
    return Field(name, f"{name}{words}", hint=about, options=["", *options] if options else ())
