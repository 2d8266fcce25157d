"""Arguments of a spider are shown as its model declares them."""

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
    assert [line.rstrip() for line in capture.get().splitlines() if line.strip()] == [
        "place  text; required",
        "       where to [begin]",
        "depth  0 to 10; default: 1",
        "most   1 or more; default: none",
        "share  number; default: 0.5",
        "parts  any of a, b; default: a,b",
        "media  yes, no; default: yes",
        "way    up, down; default: up",
    ]
