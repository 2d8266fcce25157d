"""Which addresses may be asked."""

import logging

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.download.addresses import refuse_private
from harvester.middlewares.addresses import AddressMiddleware

STRICT = Config(allow_private_hosts=False)
OPEN = Config(allow_private_hosts=True)

PUBLIC = [
    "https://cdn.bsky.app/img/avatar/plain/did:plc:abc/bafk@jpeg",
    "http://example.com:8080/a.jpg",
    "https://93.184.216.34/a.jpg",
    "https://[2606:2800:220:1:248:1893:25c8:1946]/a.jpg",
    "https://bücher.example/a.jpg",
]
PRIVATE = [
    "http://localhost/a",
    "http://LOCALHOST./a",
    "http://printer.local/a",
    "http://db.internal/a",
    "http://intranet/a",
    "http://api.localhost:8000/a",
    "http://127.0.0.1/a",
    "http://127.1/a",
    "http://%31%32%37.0.0.1/a",
    "http://2130706433/a",
    "http://0x7f000001/a",
    "http://0177.0.0.1/a",
    "http://10.0.0.8/a",
    "http://172.16.3.4/a",
    "http://192.168.1.1/a",
    "http://169.254.169.254/latest/meta-data",
    "http://100.64.0.1/a",
    "http://0.0.0.0/a",
    "http://224.0.0.1/a",
    "http://192.0.0.8/a",
    "http://192.88.99.1/a",
    "http://[::1]/a",
    "http://[::]/a",
    "http://[fe80::1%25eth0]/a",
    "http://[fd00::1]/a",
    "http://[::ffff:127.0.0.1]/a",
    "http://[64:ff9b::7f00:1]/a",
    "http://[64:ff9b:1::7f00:1]/a",
    "http://[64:ff9b:1:7f00:0:100:808:808]/a",
    "http://[::ffff:0:7f00:1]/a",
    "http://[::7f00:1]/a",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/a",
    "http://[fec0::1]/a",
    "http://127.0.0.1./a",
    "http://0x7f.1/a",
    "http://ann@127.0.0.1/a",
    "http://example.org@127.0.0.1/a",
    "http://[2002:7f00:1::]/a",
    "http://１２７.０.０.１/a",
    "http://127。0。0。1/a",
]
UNUSABLE = [
    "",
    "ftp://example.com/a",
    "file:///etc/passwd",
    "data:image/png;base64,AAAA",
    "javascript:alert(1)",
    "//example.com/a",
    "https://",
    "https:///a",
    "https://example.com:99999/a",
    "https://[::1/a",
    "https://example.com\\@127.0.0.1/a",
    "https://example.com/a b",
    "https://example.com/\na",
]


@pytest.mark.parametrize("url", PUBLIC)
def test_public_addresses_may_be_asked(url: str) -> None:
    assert refuse_private(url, STRICT) is None


@pytest.mark.parametrize("url", PRIVATE)
def test_private_addresses_are_refused_in_every_spelling(url: str) -> None:
    assert "HARVESTER_PRIVATE_HOSTS" in (refuse_private(url, STRICT) or "")


@pytest.mark.parametrize("url", PRIVATE)
def test_private_addresses_may_be_asked_when_that_is_configured(url: str) -> None:
    assert refuse_private(url, OPEN) is None


@pytest.mark.parametrize("url", UNUSABLE)
@pytest.mark.parametrize("config", [STRICT, OPEN], ids=["strict", "open"])
def test_what_is_no_web_address_is_refused_always(url: str, config: Config) -> None:
    assert refuse_private(url, config)


@pytest.mark.parametrize("url", ["http://127.0.0.1:2583/", "http://[::1]:80/", "http://db.intranet.example.lan/x"])
def test_a_host_that_the_settings_name_may_be_asked_and_its_neighbours_may_not(url: str) -> None:
    own = Config(allow_private_hosts=False, private_hosts="127.0.0.1:2583, [::1], DB.intranet.example.lan")
    middleware = AddressMiddleware(get_crawler(), own)

    middleware.process_request(Request(url))
    for neighbour in ("http://127.0.0.1:2584/", "http://127.0.0.2:2583/", "http://[::2]/", "http://lan/"):
        with pytest.raises(IgnoreRequest, match="private"):
            middleware.process_request(Request(neighbour))


def test_a_run_without_a_contact_says_so_once_when_it_asks_somebody_else(caplog: pytest.LogCaptureFixture) -> None:
    crawler = get_crawler()
    middleware = AddressMiddleware(crawler, Config(private_hosts="own.example:8080"))
    with caplog.at_level(logging.WARNING):
        for url in ("http://127.0.0.1:2583/", "http://own.example:8080/", "http://db.lan/"):
            middleware.process_request(Request(url))
        assert not caplog.messages
        for url in ("https://bsky.app/", "https://other.example/"):
            middleware.process_request(Request(url))
    (said,) = caplog.messages
    assert "HARVESTER_CONTACT" in said
    assert crawler.stats.get_value("harvester/no_contact") == 1


def test_a_run_with_a_contact_names_it_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(contact="mailto:ann@ann.example")
    AddressMiddleware(get_crawler(), config).process_request(Request("https://bsky.app/"))
    assert not caplog.messages
    assert config.user_agent == "harvester/1.0 (+mailto:ann@ann.example)"
    assert Config().user_agent == "harvester/1.0", "and no address that is nobody's"
