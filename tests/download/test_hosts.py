"""Where no server can be is told from where one might be: of that, the network knows more."""

import pytest

from harvester.download.addresses import fault_of, host_of
from harvester.sites import Registry


@pytest.mark.parametrize(
    "netloc",
    [
        "example.org",
        "EXAMPLE.org.:8080",
        "ann:hunter2@example.org",
        "localhost",
        "under_score.example.org",
        "-odd-.example.org",
        "127.0.0.1:0",
        "0x7f.1",
        "[::1]:80",
        "[fe80::1%25eth0]",
        "münchen.example",
        "faß.example",
        "☃.example",
        "１２７.0.0.1",
        "例え。テスト",
        "xn--n3h.example",
        f"{'a' * 63}.example",
        f"{'a.' * 126}a",
    ],
)
def test_where_a_server_might_be_the_network_is_asked(netloc: str) -> None:
    assert fault_of(netloc) is None


@pytest.mark.parametrize(
    "netloc",
    [
        "",
        ":80",
        "ann:hunter2@",
        "[::1",
        "[zz]",
        "example.org:99999",
        "example.org:http",
        "a..example",
        ".example",
        "a b.example",
        "a%2fb.example",
        "a\\b.example",
        f"{'a' * 64}.example",
        f"{'ü' * 64}.example",
        f"{'a.' * 127}a",
        "a" * 100_000,
        "ann:hunter2@a b.example",
        f"ann:hunter2@{'ü' * 64}.example",
    ],
)
def test_where_no_server_can_be_is_said_in_a_few_words_without_the_password(netloc: str) -> None:
    fault = fault_of(netloc)
    assert fault
    assert len(fault) < 300
    assert "hunter2" not in fault


@pytest.mark.parametrize("url", ["http://[::1", "http://x:y:z", f"http://{'a.' * 5000}a/", "", "nonsense"])
def test_every_address_belongs_to_a_site(url: str) -> None:
    """So that a queue, a throttle or a count that meets it goes on."""
    site = Registry().of(url)
    assert Registry().named(site.name) == site


def test_a_host_is_shown_without_its_password() -> None:
    assert host_of("http://ann:hunter2@example.org:8080/x?y@z") == "example.org:8080"
