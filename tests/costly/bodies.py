"""The bodies, by who reads them. Each is made when it is asked for."""

import json
import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from harvester.sandbox.car import Item, _sections, _varint, layer, tree_root
from harvester.sandbox.dag_cbor import encode
from harvester.sandbox.ids import encode_block

MB = 1 << 20
XML, HTML, JSON = "application/xml", "text/html; charset=utf-8", "application/json"


class Body(NamedTuple):
    """What a site answers with, or a person uploads."""

    make: Callable[[], bytes]
    kind: str = XML
    declared: Mapping[str, Any] = {}
    """Of an endpoint."""


def wanted(bodies: Mapping[str, Body]) -> dict[str, Body]:
    """Selects the bodies whose names hold the text of the environment variable ONLY; without it, all."""
    return {name: body for name, body in bodies.items() if os.environ.get("ONLY", "") in name}


def rss(inner: bytes) -> bytes:
    return b'<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>' + inner + b"</channel></rss>"


def atom(inner: bytes) -> bytes:
    return b'<feed xmlns="http://www.w3.org/2005/Atom">' + inner + b"</feed>"


def gzipped(piece: bytes, mb: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    unit = piece * (MB // len(piece))
    return b"".join(packer.compress(unit) for _ in range(mb)) + packer.flush()


def json_feed(inner: bytes) -> bytes:
    return b'{"version":"https://jsonfeed.org/version/1","items":[' + inner + b"]}"


def _entities() -> bytes:
    levels = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 12))
    return b'<!DOCTYPE x [<!ENTITY l0 "lol">' + levels + b"]>" + rss(b"<item><title>&l11;</title></item>")


def _schema_of_references() -> dict[str, Any]:
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(24)}
    return {"$defs": parts | {"d24": {"type": "object"}}, "$ref": "#/$defs/d0"}


def _schema_of_many() -> dict[str, Any]:
    return {"$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{m}"} for m in range(40)]} for n in range(40)}}


FEEDS: dict[str, Body] = {
    "RSS of 900,000 items": Body(lambda: rss(b"".join(b"<item><guid>g%d</guid></item>" % n for n in range(900_000)))),
    "RSS of 30,000 items": Body(lambda: rss(b"".join(b"<item><guid>g%d</guid></item>" % n for n in range(30_000)))),
    "24 MB of one tag": Body(lambda: rss(b"<skipHours " * (24 * MB // 11))),
    "1 MB of skipHours": Body(lambda: rss(b"<skipHours>" * (MB // 11))),
    "8 MB of <": Body(lambda: rss(b"<" * (8 * MB))),
    "2 MB of open tags": Body(lambda: rss(b"<a " * (MB // 2))),
    "4 MB of &": Body(lambda: rss(b"<item><title>" + b"&" * (4 * MB) + b"</title></item>")),
    "1 M references": Body(lambda: rss(b"<item><title>" + b"&#x110000;" * MB + b"</title></item>")),
    "nested 1,000,000 in an item": Body(lambda: rss(b"<item>" + b"<a>" * 1_000_000)),
    "nested entities": Body(_entities),
    "1 MB of CDATA": Body(lambda: rss(b"<![CDATA[" * (MB // 9))),
    "1 MB of comments": Body(lambda: rss(b"<!-- " * (MB // 5))),
    "1 MB of DOCTYPE": Body(lambda: b'<rss version="2.0">' + b"<!DOCTYPE [" * (MB // 11)),
    "8 MB of <a in a description": Body(
        lambda: rss(b"<item><description><![CDATA[" + b"<a " * (8 * MB // 3) + b"]]></description></item>")
    ),
    "a date of 1 MB": Body(lambda: rss(b"<item><pubDate>" + b"1 " * (MB // 2) + b"</pubDate></item>")),
    "Atom: 1 M links": Body(lambda: atom(b"<entry><id>1</id>" + b'<link href="a"/>' * 1_000_000 + b"</entry>")),
    "Atom: xml:base nested 30,000": Body(lambda: atom(b"".join(b'<x xml:base="b%d/">' % n for n in range(30_000)))),
    "Atom: a base of 1 MB": Body(
        lambda: (
            b'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://a/'
            + b"b/" * (MB // 2)
            + b'"><entry><id>1</id>'
            + b'<link href="../c"/>' * 10_000
            + b"</entry></feed>"
        )
    ),
    "JSON Feed of 1 M items": Body(lambda: json_feed(b",".join(b'{"id":"%d"}' % n for n in range(1_000_000))), JSON),
    "page: 500,000 feeds": Body(
        lambda: b"<html><head>" + b'<link rel=alternate type="application/rss+xml" href="/x">' * 500_000, HTML
    ),
    "page: 30 MB of <a": Body(lambda: b"<html>" + b"<a " * (10 * MB), HTML),
    "page: 100,000 attributes": Body(lambda: b"<html><p " + b" ".join(b'a%d="1"' % n for n in range(100_000)), HTML),
    "sitemap of 800,000 pages": Body(
        lambda: b"<urlset>" + b"".join(b"<url><loc>http://a/%d</loc></url>" % n for n in range(800_000)) + b"</urlset>"
    ),
    "sitemap: 1 M attributes": Body(
        lambda: b"<urlset " + b" ".join(b'a%d="1"' % n for n in range(1_000_000)) + b"></urlset>"
    ),
    "sitemap: an attribute of 30 MB": Body(lambda: b'<urlset a="' + b"x" * (30 * MB) + b'"></urlset>'),
    "sitemap: gzip of 4 GB": Body(lambda: gzipped(b"<url><loc>http://a/1</loc></url>", 4096), "application/gzip"),
    "sitemap: gzip of zeros, 2 GB": Body(lambda: gzipped(b"\0", 2048), "application/gzip"),
    "sitemap: 5 M elements in a url": Body(lambda: b"<urlset><url>" + b"<a/>" * 5_000_000 + b"</url></urlset>"),
    "sitemap: an address of 30 MB": Body(
        lambda: b"<urlset><url><loc>http://a/" + b"a" * (30 * MB) + b"</loc></url></urlset>"
    ),
    "sitemap: 100,000 namespaces": Body(
        lambda: b"<urlset>" + b"".join(b'<x xmlns:n%d="u%d">' % (n, n) for n in range(100_000))
    ),
    "sitemap: 30 MB of http://": Body(lambda: b"http://" * (30 * MB // 7), "text/plain"),
    "sitemap: 1 M lines": Body(lambda: b"".join(b"http://a/%d\n" % n for n in range(1_000_000)), "text/plain"),
}

_ROWS = {"rows": "@"}
ENDPOINTS: dict[str, Body] = {
    "JSON of 1.9 M rows": Body(lambda: b'[{"a":1}' + b',{"a":1}' * 1_900_000 + b"]", JSON, _ROWS),
    "JSON of 60,000 rows": Body(
        lambda: b"[" + b",".join(b'{"id":%d,"name":"row %d"}' % (n, n) for n in range(60_000)) + b"]",
        JSON,
        {"rows": "@", "key": "id"},
    ),
    "JSON: a number of 1 M digits": Body(lambda: b"[" + b"9" * 1_000_000 + b"]", JSON, _ROWS),
    "JSON nested 100,000": Body(lambda: b"[" * 100_000 + b"]" * 100_000, JSON, _ROWS),
    "JSON: a document of 15 MB": Body(lambda: b'{"a":["' + b'x","' * (3 * MB) + b'"]}', JSON),
    "JSON: a document of 5 MB": Body(lambda: b'{"a":["' + b'x","' * MB + b'"]}', JSON),
    "JMESPath that doubles": Body(lambda: b"[1]", JSON, {"rows": "@" + " | [@,@][]" * 60}),
    "JMESPath: lists of lists": Body(lambda: b'{"a":[1,2,3,4]}', JSON, {"pick": "a" + ".[@,@]" * 40}),
    "schema: (a+)+$": Body(
        lambda: json.dumps([{"t": "a" * 40 + "!"}]).encode(),
        JSON,
        {"rows": "@", "schema": {"properties": {"t": {"pattern": "^(a+)+$"}}}},
    ),
    "schema: uniqueItems": Body(
        lambda: json.dumps([{"t": [{"a": n} for n in range(20_000)]}]).encode(),
        JSON,
        {"rows": "@", "schema": {"properties": {"t": {"uniqueItems": True}}}},
    ),
    "schema: references that double": Body(
        lambda: b'[{"a":1}]', JSON, {"rows": "@", "schema": _schema_of_references()}
    ),
}

PAGES: dict[str, Body] = {
    "HTML: 500,000 links": Body(lambda: b"<html><body>" + b'<a href="/1">x</a>' * 500_000, HTML),
    "HTML: 90,000 links": Body(lambda: b"<html><body>" + b'<a href="/1">x</a>' * 90_000, HTML),
    "HTML: 1 M attributes": Body(lambda: b"<p " + b" ".join(b'a%d="1"' % n for n in range(1_000_000)) + b">", HTML),
    "HTML: nested 1,000,000": Body(lambda: b"<html>" + b"<div>" * 1_000_000, HTML),
    "HTML: 30 MB of <a": Body(lambda: b"<html>" + b"<a " * (10 * MB), HTML),
    "XML: 3 M elements": Body(lambda: b'<?xml version="1.0"?><r>' + b"<x/>" * 3_000_000 + b"</r>", "text/xml"),
    "JSON: 1.9 M rows": Body(lambda: b'[{"a":1}' + b',{"a":1}' * 1_900_000 + b"]", JSON),
}


def repository(number: int) -> bytes:
    """A repository of so many records, of 320 bytes each with its part of the tree."""
    blocks: dict[bytes, bytes] = {}
    items: list[Item] = []
    for n in range(number):
        kind = ("app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.feed.repost")[n % 3]
        value: dict[str, Any] = {"$type": kind, "createdAt": "2025-01-01T00:00:00.000Z", "text": f"{n} " * 20}
        value["subject"] = {"uri": f"at://{DID}/app.bsky.feed.post/{n}", "cid": "bafyreihdwdcefgh4dqkjv67uzcmw7ojee6xe"}
        cid, block = encode_block(value)
        path = f"{kind}/{n:013d}".encode()
        blocks[cid] = block
        items.append((path, layer(path), cid))
    tree: dict[bytes, bytes] = {}
    root = tree_root(sorted(items), tree)
    head, commit = encode_block({"did": DID, "rev": "3k", "sig": b"s", "data": root, "prev": None, "version": 3})
    header = encode({"roots": [head], "version": 1})
    return _varint(len(header)) + header + b"".join(_sections({head: commit} | tree | blocks))


DID = "did:plc:abcdefghijklmnopqrstuvwx"
REPOSITORIES: dict[str, Body] = {
    "repository of 500,000 records": Body(lambda: repository(500_000), "application/vnd.ipld.car"),
}

_COMPRESSED = "text/plain; gzip"
UPLOADS: dict[str, Body] = {
    "gzip of newlines": Body(lambda: gzipped(b"\n", 25), _COMPRESSED),
    "gzip of zeros, 1 GB": Body(lambda: gzipped(b"\0", 1024), _COMPRESSED),
    "8 MB of newlines": Body(lambda: b"\n" * (8 * MB), "text/plain"),
    "CSV: open quotation marks": Body(lambda: b"key,b,c\n" + b'a",b,"\n' * (3 * MB // 7), "text/csv"),
    "CSV: 500,000 bad lines": Body(lambda: b"key,b\n" + b"x\n" * 500_000, "text/csv"),
    "a line of 60 MB": Body(lambda: b"a" * (60 * MB), "text/plain"),
    "CSV: 500,000 columns": Body(lambda: b"key" + b",a" * 500_000 + b"\n1\n", "text/csv"),
    "JSON lines nested 100,000": Body(lambda: (b"[" * 100_000 + b"]" * 100_000 + b"\n") * 20, "application/x-ndjson"),
    "a schema of 60 kB": Body(
        lambda: json.dumps(_schema_of_many()).encode(),
        "schema",
    ),
    "a path that doubles": Body(lambda: ("`[1]`" + " | [@,@][]" * 60).encode(), "path"),
}
