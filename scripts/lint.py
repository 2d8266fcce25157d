#!/usr/bin/env python3
"""Checks rules of the house that no other tool knows: `python scripts/lint.py [--commit-message FILE]`.

- A public class name stands once in harvester/, so that a search finds the one that is meant.
- A docstring is a sentence of its own: it does not continue the name before it ("Whether it passes", "Of a site").
- A key of Request.meta says which rooms write and which read it.
- No module outside harvester/outcomes lists outcomes: what code asks of an outcome is a column of its table.
- The first line of a commit message names a room and has at most 72 characters.

Exit code: 1 when a rule is broken.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

MAX_SUBJECT = 72
META_MODULES = ("meta.py", "internal_meta.py")
continues_name = re.compile(
    r"(Whether|Of|What|How|Which|Who|Whom|Whose|It|They|He|Its|Their|Nothing|Nobody|Those|So many"
    r"|(For|By|With|In|From|To) (which|whom|what|one|it|them|those))\b"
).match
NOT_READ_AGAIN = frozenset(["cli", "config.py", "control"])
"""Rooms whose docstrings have not been read again yet. No room is added."""
subject_begins = re.compile(r"(Merge|Revert|fixup!|squash!) |[a-z][a-z0-9 ,_./-]*: ").match


def find_repeated_names(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yields a line for each public class name that stands in several modules."""
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{' '.join(found)}: the class name {name} stands {len(found)} times"


def find_outcome_lists(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yields a line for each tuple, list, set or dict outside outcomes/ that holds several outcomes."""
    for path, tree in trees.items():
        if "outcomes" in path.parts:
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
                members = node.elts
            elif isinstance(node, ast.Dict):
                members = [key for key in node.keys if key]
            else:
                continue
            if sum(_is_outcome(member) for member in members) > 1:
                yield f"{path}:{node.lineno}: a list of outcomes. Make it a column of Policy in harvester/outcomes"


def find_unfinished_docstrings(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yields a line for each docstring of a module, class, function or attribute that continues a name."""
    for path, tree in trees.items():
        if path.parts[1] in NOT_READ_AGAIN:
            continue
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) else ():
                text = docstring_of(statement)
                if continues_name(text):
                    yield f"{path}:{statement.lineno}: a docstring that is no sentence of its own: {text[:60]!r}"


def find_wrong_meta_users(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yields a line for each key of Request.meta whose docstring names other rooms than the code that uses it.

    A use that is neither writing nor reading, such as a member of a list, counts as whichever is named.
    """
    uses: dict[str, dict[str, set[str]]] = defaultdict(lambda: {"Written": set(), "Read": set(), "": set()})
    for path, tree in trees.items():
        if path.name not in META_MODULES:
            for key, use in _meta_uses(tree):
                uses[key][use].add(path.parts[1].removesuffix(".py"))
    for path, tree in trees.items():
        if path.name not in META_MODULES:
            continue
        for statement, after in pairwise(tree.body):
            said = " ".join(docstring_of(after).split())
            if not isinstance(statement, ast.Assign) or "Written by: " not in said:
                continue
            key = ast.unparse(statement.targets[0])
            for use in ("Written", "Read"):
                named = {*said.partition(f"{use} by: ")[2].partition(".")[0].split(", ")} - {"spiders"}
                found = uses[key][use] - {"spiders"}
                if not found <= named <= found | uses[key][""]:
                    yield f"{path}:{statement.lineno}: {key} is {use.lower()} by {', '.join(sorted(found))}"


def _meta_uses(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields the name of each key that a module uses, with Written, Read or an empty text."""
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("harvester.meta", "harvester.internal_meta")
        for alias in node.names
    }
    for parent in ast.walk(tree) if names else ():
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Name) and node.id in names:
                yield names[node.id], _meta_use(node, parent)


def _meta_use(node: ast.Name, parent: ast.AST) -> str:
    method = parent.func.attr if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) else ""
    if isinstance(parent, ast.Dict) and node in parent.keys:
        return "Written"
    if isinstance(parent, ast.Subscript):
        return "Written" if isinstance(parent.ctx, ast.Store) else "Read"
    if isinstance(parent, ast.Compare) or method in ("get", "pop"):
        return "Read"
    return "Written" if method == "setdefault" else ""


def docstring_of(statement: ast.stmt) -> str:
    """Returns the text of a statement that is one; else an empty string."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _is_outcome(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Outcome"


def check_subject(message: str) -> Iterator[str]:
    """Yields what is wrong with the first line of a commit message."""
    subject = message.partition("\n")[0]
    if len(subject) > MAX_SUBJECT:
        yield f"The subject has {len(subject)} characters; at most {MAX_SUBJECT} are allowed: {subject}"
    if not subject_begins(subject):
        yield f"The subject does not begin with the name of a room, as in `frontier: ...`: {subject}"


def main() -> int:
    """Prints what is wrong, and returns the exit code."""
    if sys.argv[1:2] == ["--commit-message"]:
        faults = list(check_subject(Path(sys.argv[2]).read_text("utf-8")))
    else:
        trees = {path: ast.parse(path.read_bytes()) for path in sorted(Path("harvester").rglob("*.py"))}
        checks = (find_repeated_names, find_outcome_lists, find_unfinished_docstrings, find_wrong_meta_users)
        faults = [fault for check in checks for fault in check(trees)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
