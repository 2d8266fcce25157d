"""The spiders, with the JSON Schemas of their arguments."""

import asyncio
from dataclasses import dataclass
from inspect import cleandoc
from typing import Annotated, Any

from fastapi import APIRouter, Path

from harvester.control.auth import READS
from harvester.control.context import Here
from harvester.control.problems import documented
from harvester.control.services.spiders import spiders
from harvester.project import load_spider

router = APIRouter(prefix="/spiders", tags=["spiders"])


@dataclass(frozen=True, slots=True)
class SpiderReport:
    """A spider."""

    name: str
    about: str
    """The spider's docstring: domain, caveats, arguments."""
    kinds: list[str]
    """Kinds of items that it takes; empty: it starts from its arguments."""
    arguments: dict[str, Any]
    """JSON Schema of its arguments; empty if it declares none."""


@dataclass(frozen=True, slots=True)
class SpiderList:
    """Their names."""

    names: list[str]


@router.get("", operation_id="list_spiders", dependencies=[READS])
async def list_spiders(_: Here) -> SpiderList:
    """The spiders of the project."""
    return SpiderList(await spiders())


@router.get("/{name}", operation_id="show_spider", dependencies=[READS], responses=documented(404))
async def show_spider(_: Here, name: Annotated[str, Path(max_length=200)]) -> SpiderReport:
    """A spider, and the JSON Schema of its arguments."""
    await spiders(name)
    spider = await asyncio.to_thread(load_spider, name)
    model = getattr(spider, "Arguments", None)
    return SpiderReport(
        name=name,
        about=cleandoc(spider.__doc__ or ""),
        kinds=list(getattr(spider, "ITEM_KINDS", ())),
        arguments=model.model_json_schema() if model else {},
    )
