"""Entries of sites, lines of lists, and what must be seen nowhere."""

from tests.proxies.crawl import Crawled
from tests.proxies.farm import Proxy, Site

USER, WORD = "farmer-customer", "s3cret-w0rd"
USERS = {USER: WORD}
SECRETS = (USER, WORD)
BLOCK = b"<html><title>Access denied</title>Your address is blocked.</html>"


def entry(name: str, site: Site, **lines: str) -> str:
    """A site's entry; values as TOML writes them."""
    told = {"tiers": '["datacenter"]', "vendor": '"list"', **lines}
    head = [f"[{name}]", f'hosts = ["{site.name}"]', f"[{name}.proxy]"]
    return "\n".join([*head, *(f"{key} = {value}" for key, value in told.items()), ""])


def line(proxy: Proxy, tier: str, word: str = WORD, country: str = "") -> str:
    """A line of the list."""
    return f"http://{USER}:{word}@{proxy.name} {tier} {country}\n"


def nothing_shown(crawled: Crawled) -> None:
    """No credential is in the log, not even at level DEBUG, in stats, or where callbacks and queues could see it."""
    told = crawled.log + repr(crawled.stats) + repr(crawled.outcomes)
    assert not [secret for secret in SECRETS if secret in told]
    assert crawled.leaks == [], crawled.leaks
