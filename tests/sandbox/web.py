"""A site whose pages link to each other at random; what a crawl of it must find is known without crawling.

To the tree it adds: links to any page by any of its addresses (direct, by one redirect, by two), pages that are slow,
that hang up at first, and that are broken for good.
"""

from tests.sandbox.tree import Tree

CROSS_LINKS = 4


class Web(Tree):
    """So many pages; the links of the tree among them, so that each page can be reached."""

    __slots__ = ()

    def any_address(self, page: int, by: int) -> str:
        """One of the three addresses of a page; `by` is a number as good as chance."""
        return (f"/page/{page}", f"/page/{page}", f"/moved/{page}", f"/twice/{page}")[by % 4] if page else "/page/0"

    def hang_ups(self, page: int) -> int:
        """How often the connection is closed without an answer."""
        return 1 if self.holds("hangs up", page, 10) else 0

    def delay_s(self, page: int) -> float:
        """How long the answer takes."""
        return 0.2 + self.roll("delay", page) % 100 / 100 if self.holds("slow", page, 10) else 0.0

    def broken(self, page: int) -> str:
        """An address that it links to, and that answers 500 for good; or ""."""
        return f"/broken/{page}" if self.holds("broken", page, 4) else ""

    def links(self, page: int) -> list[str]:
        """Those of the tree, some at random, some of them twice, and a broken one."""
        found = super().links(page)
        for number in range(CROSS_LINKS):
            to = self.roll(f"link {number}", page)
            found.append(self.any_address(to % self.pages, self.roll(f"way {number}", page)))
        return [*found, *filter(None, [self.broken(page)])]

    def all_broken(self) -> list[str]:
        """The addresses that no crawl gets a page from."""
        return [address for page in range(self.pages) if (address := self.broken(page))]
