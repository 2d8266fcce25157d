"""Tables of docs/, made of the program. `python -m tests.docs.tables` prints them, to be pasted there."""

import ast
import inspect
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from harvester import config
from harvester.spiders.base import SpiderArguments
from harvester.spiders.bluesky.arguments import BlueskyArguments
from harvester.spiders.hashtags.arguments import HashtagsArguments


def settings() -> str:
    """Every field of Config: variable, default, and its docstring."""
    lines = ["| Variable | Default | Meaning |", "|---|---|---|"]
    docstrings = _docstrings(config.Config)
    for name, field in config.Config.model_fields.items():
        variable = f"`HARVESTER_{name.upper()}`"
        if field.validation_alias:
            variable = f"`{name.upper()}` or {variable}"
        lines.append(f"| {variable} | {_written(field.default)} | {docstrings[name]} |")
    return "\n".join(lines) + "\n"


def arguments(model: type[SpiderArguments]) -> str:
    """Every argument of a spider: name, default, and its description."""
    lines = ["| Argument | Default | Meaning |", "|---|---|---|"]
    schema = model.model_json_schema()["properties"]
    for name, field in model.model_fields.items():
        values = f" ({', '.join(schema[name]['enum'])})" if "enum" in schema[name] else ""
        default = _written(field.get_default(call_default_factory=True))
        lines.append(f"| `{name}` | {default} | {field.description}{values} |")
    return "\n".join(lines) + "\n"


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Field -> the docstring below it, on one line."""
    [tree] = ast.parse(inspect.getsource(model)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            found[field.target.id] = " ".join(str(text).split())
    return found


def _written(default: Any) -> str:
    """A default as one would type it."""
    if default in (None, "", PydanticUndefined) or isinstance(default, SecretStr):
        return "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    text = ",".join(default) if isinstance(default, tuple) else str(default)
    return f"`{text}`"


if __name__ == "__main__":
    print(settings())
    print(arguments(BlueskyArguments))
    print(arguments(HashtagsArguments))
