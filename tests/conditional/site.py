"""A site whose pages have validators, and which answers 304 to those who know them."""

from multidict import CIMultiDictProxy

from tests.politeness.robots.site import Reply, WebSite

OLD, NEW = "Mon, 02 Nov 2026 10:00:00 GMT", "Tue, 03 Nov 2026 10:00:00 GMT"


class Validating(WebSite):
    """Each path has one reply; what is in `changed` has another ETag each time."""

    changed: frozenset[str] = frozenset()

    def reply(self, path: str, headers: CIMultiDictProxy[str], number: int) -> Reply:
        reply = super().reply(path, headers, number)
        if path in self.changed:
            reply = reply._replace(headers={"ETag": f'"{number}"'})
        etag, modified = reply.headers.get("ETag"), reply.headers.get("Last-Modified")
        known = etag is not None and headers.get("If-None-Match") == etag
        if known or (etag is None and modified is not None and headers.get("If-Modified-Since") == modified):
            return Reply(304, b"", reply.headers)
        return reply

    def said(self, path: str) -> list[tuple[str | None, str | None]]:
        """If-None-Match and If-Modified-Since of the requests for a path."""
        return [(each.headers.get("If-None-Match"), each.headers.get("If-Modified-Since")) for each in self.asked(path)]
