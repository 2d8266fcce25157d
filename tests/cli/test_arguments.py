"""Arguments of a spider are shown as its model declares them."""

import re
from typing import Literal

from pydantic import BaseModel, Field
from rich.console import Console

from harvester.spiders.arguments import describe


class Arguments(BaseModel):
    place: str = Field(description="where to [begin]")
    depth: int = Field(1, ge=0, le=10)
    most: int | None = Field(None, ge=1)
    share: float = 0.5
    parts: tuple[Literal["a", "b"], ...] = ("a", "b")
    media: bool = True
    way: Literal["up", "down"] = "up"


def test_values_defaults_and_descriptions_are_shown() -> None:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(describe(Arguments))
    first, description, *others = [line for line in capture.get().splitlines() if line.strip()]
    assert (first.split()[0], "required" in first, description.strip()) == ("place", True, "where to [begin]")
    shown = {line.split()[0]: line.split(maxsplit=1)[1].rpartition("default: ") for line in others}
    assert {name: default.strip() for name, (_, _, default) in shown.items()} == {
        "depth": "1",
        "most": "none",
        "share": "0.5",
        "parts": "a,b",
        "media": "yes",
        "way": "up",
    }
    allowed = {
        name: set(re.findall(r"\b(?:\d+|a|b|yes|no|up|down)\b", values)) for name, (values, _, _) in shown.items()
    }
    assert allowed == {
        "depth": {"0", "10"},
        "most": {"1"},
        "share": set(),
        "parts": {"a", "b"},
        "media": {"yes", "no"},
        "way": {"up", "down"},
    }
