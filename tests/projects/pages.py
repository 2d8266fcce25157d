"""Finds the pages that a project saved for its tests, and the addresses which its tests give them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_NO_PAGES = frozenset([".py", ".pyc", ".md", ".toml", ".cfg", ".ini", ".lock", ".sh", ".gitignore"])
_is_address = re.compile(r"https?://[^\s\"']+$").match
_tokens = re.compile(r"[a-z0-9]+").findall


class Saved(NamedTuple):
    """A page, and the address under which a test reads it; empty where no test names one."""

    file: str
    url: str


def saved_pages(project: Path, spiders: dict[str, str]) -> dict[str, list[Saved]]:
    """Spider -> its pages, of the spiders (name -> module) of a project.

    They are those of the tests that import its module; of a spider that no test imports, those whose names have all
    words of the spider's name.
    """
    tests = [path for path in sorted(project.rglob("*.py")) if _is_test(path.relative_to(project))]
    files = [path for path in sorted(project.rglob("*")) if _is_page(path, project)]
    by_name: dict[str, list[Path]] = {}
    for path in files:
        by_name.setdefault(path.name, []).append(path)
    by_module: dict[str, list[Saved]] = {}
    for test in tests:
        try:
            tree = ast.parse(test.read_text(errors="replace"))
        except SyntaxError:
            continue
        found = list(dict.fromkeys(_read(tree, by_name)))
        for module in _imported(tree):
            by_module.setdefault(module, []).extend(found)
    return {
        name: _without_doubles(by_module.get(module, [])) or [Saved(str(path), "") for path in _named(name, files)]
        for name, module in spiders.items()
    }


def _is_test(path: Path) -> bool:
    return path.suffix == ".py" and any(part.startswith("test") for part in path.parts)


def _is_page(path: Path, project: Path) -> bool:
    return (
        path.is_file()
        and path.suffix not in _NO_PAGES
        and any(part.startswith("test") for part in path.relative_to(project).parts[:-1])
    )


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def _read(tree: ast.Module, by_name: dict[str, list[Path]]) -> Iterator[Saved]:
    """Each name of a page in the source, with the address among the arguments of the innermost call that has one."""
    inside: dict[ast.AST, ast.AST] = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        for path in by_name.get(node.value.rpartition("/")[2], []):
            if not path.as_posix().endswith(node.value.lstrip("./")):
                continue
            outer: ast.AST | None = node
            url = ""
            while outer is not None and not url and not isinstance(outer, ast.Module | ast.FunctionDef):
                if isinstance(outer, ast.Call):
                    url = next(_addresses(outer), "")
                outer = inside.get(outer)
            yield Saved(str(path), url)


def _addresses(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and _is_address(each.value):
            yield each.value


def _without_doubles(pages: list[Saved]) -> list[Saved]:
    named = {page.file for page in pages if page.url}
    return list(dict.fromkeys(page for page in pages if page.url or page.file not in named))


def _named(spider: str, files: list[Path]) -> list[Path]:
    words = set(_tokens(spider.lower()))
    return [path for path in files if words <= set(_tokens("/".join(path.parts[-3:]).lower()))]
