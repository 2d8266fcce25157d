"""Every key of Request.meta of harvester's own is named in harvester/meta.py or harvester/internal_meta.py."""

import ast
from collections import Counter

from harvester import internal_meta, meta
from tests.root import ROOT

SCRAPYS = {
    "dont_redirect",
    "dont_retry",
    "download_latency",
    "download_maxsize",
    "download_slot",
    "download_timeout",
    "handle_httpstatus_all",
    "handle_httpstatus_list",
    "max_retry_times",
    "priority_adjust",
    "proxy",
    "redirect_times",
    "redirect_urls",
    "retry_times",
}
"""Keys of Scrapy's own that are used by name."""


def texts_of_keys(tree: ast.AST) -> set[str]:
    """Texts by which something is looked up in a `meta`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            holder, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr not in ("get", "pop", "setdefault"):
                continue
            holder, key = node.func.value, node.args[0]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            holder, key = node.comparators[0], node.left
        else:
            continue
        is_meta = (isinstance(holder, ast.Attribute) and holder.attr == "meta") or (
            isinstance(holder, ast.Name) and holder.id == "meta"
        )
        if is_meta and isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.add(key.value)
    return found


def test_keys_are_used_by_their_names_in_meta() -> None:
    sources = {path: path.read_text("utf-8") for path in (ROOT / "harvester").rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in sources.items() if "meta" in text}
    unnamed = {str(path): texts for path, tree in trees.items() if (texts := texts_of_keys(tree) - SCRAPYS)}
    assert unnamed == {}


def test_no_two_keys_have_the_same_text() -> None:
    keys = vars(meta) | vars(internal_meta)  # the one imports some names of the other
    texts = Counter(value for name, value in keys.items() if name.isupper() and isinstance(value, str))
    assert texts.most_common(1)[0][1] == 1
    assert len(texts) > 30
