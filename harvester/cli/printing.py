"""Output of commands: tables for people, JSON for programs."""

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from harvester.formatting import shown as shown  # re-exported for all modules that print

WIDE = 1_000_000
"""Number of columns for tables that must not be cut or wrapped."""


def print_json(value: Any) -> None:
    """Prints JSON. Dataclasses, named tuples and structs become objects; times and paths become strings."""
    is_utf_8 = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    print(json.dumps(_plain(value), indent=2, ensure_ascii=not is_utf_8))


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        hidden: frozenset[str] = getattr(value, "HIDDEN", frozenset())
        value = {name: part for name, part in msgspec.structs.asdict(value).items() if name not in hidden}
    if is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    return value.isoformat() if isinstance(value, datetime) else value


def new_console() -> Console:
    """Returns a console that keeps long lines whole and, without a terminal, rows of tables too."""
    width = None if sys.stdout.isatty() else WIDE
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False, width=width)


def new_grid() -> Table:
    """Returns a table without header for name, number and remark."""
    columns = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "left"):
        columns.add_column(justify=justify, overflow="fold")
    return columns


def new_table(first: str, *others: str) -> Table:
    """Returns a table with a column of names and columns of numbers."""
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    rows.add_column(first, overflow="fold")
    for name in others:
        rows.add_column(name, justify="right", overflow="fold")
    return rows


def parts(counts: Mapping[str, int]) -> str:
    """Formats counts, the largest first: 12 done, 3 failed."""
    largest = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count:,} {name}" for name, count in largest)


def at(time: datetime | float) -> str:
    """Formats a time, given as a datetime or in epoch seconds."""
    moment = time if isinstance(time, datetime) else datetime.fromtimestamp(time, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
