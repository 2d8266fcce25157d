"""Shows a spider's arguments, as its pydantic model declares them."""

from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text
from scrapy import Spider

from harvester.spiders.base import HarvesterSpider


def check_arguments(spider: type[Spider], given: dict[str, Any]) -> None:
    """Raises UsageError that names each bad argument. Accepts anything for a spider without an argument model."""
    if issubclass(spider, HarvesterSpider):
        spider.parse_arguments(given)


def print_arguments(spider: type[Spider]) -> None:
    """Prints the text for `-a help`."""
    console = Console(highlight=False, markup=False)
    if issubclass(spider, HarvesterSpider):
        console.print(describe(spider.Arguments))
    else:
        console.print(f"{spider.name} declares no arguments: what is given becomes its attributes.")
    console.print(f"\nharvester crawl {spider.name} -a argument=value -a argument=value ...")


def describe(model: type[BaseModel]) -> Table:
    """Returns a table of the model's fields: values, default and description."""
    schema = model.model_json_schema()["properties"]
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, field in model.model_fields.items():
        default = _written(field.get_default(call_default_factory=True))
        values = f"{_values(schema[name])}; {'required' if field.is_required() else f'default: {default}'}"
        table.add_row(Text(name, "bold"), Text.assemble((values, "cyan"), f"\n{field.description or ''}"))
    return table


def _values(schema: dict[str, Any]) -> str:
    """Describes the allowed values from a field's JSON Schema."""
    if "anyOf" in schema:  # X or None
        return " or ".join(_values(option) for option in schema["anyOf"] if option.get("type") != "null")
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = schema.get("type")
    if kind == "array":
        return f"any of {_values(schema['items'])}"
    if kind == "boolean":
        return "yes, no"
    if kind in ("integer", "number"):
        return _range(schema)
    return "date or time" if schema.get("format") == "date-time" else "text"


def _range(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    return "number" if low is None else f"{low} or more"


def _written(value: Any) -> str:
    """Formats a default the way it is typed."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(_written, value))
    return str(value)
