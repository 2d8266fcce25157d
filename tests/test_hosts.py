"""Names of hosts become what browsers make of them, wherever an address is asked, compared or refused."""

import pytest
from scrapy import Request

from harvester.config import load_config
from harvester.download.addresses import fault_of, refuse_private
from harvester.hosts import ascii_host
from harvester.sites import Registry
from harvester.sites.site import Site

SAME = {
    "straße.de": "xn--strae-oqa.de",
    "Faß.example": "xn--fa-hia.example",
    "βόλος.com": "xn--nxasmm1c.com",
    "نامه\u200cای.com": "xn--mgba3gch31f060k.com",
    "💩.la": "xn--ls8h.la",
    "☃.net": "xn--n3h.net",
    "BÜCHER.example": "xn--bcher-kva.example",
    "例え。テスト": "xn--r8jz45g.xn--zckzah",
    "a．b｡c": "a.b.c",
    "ＧＯ.com": "go.com",
    "go\u00adogle.com": "google.com",
    "ex%61mple.com": "example.com",
    "%E2%98%83.net": "xn--n3h.net",
    "xn--a": "xn--a",
    "under_score.-odd-.example.": "under_score.-odd-.example.",
    "１２７.0.0.1": "127.0.0.1",
    "0x7f.1": "127.0.0.1",
    "2130706433": "127.0.0.1",
    "0177.0.0.1": "127.0.0.1",
    "127.0.0.1.": "127.0.0.1",
}
IMPOSSIBLE = [
    "a%2fb.example", "a%40b", "a%00b", "a b", "a^b", "a|b", "xn--ü", "\ufffd.com", "\u200d.example", "يa",
    "1.2.3.4.5", "256.256.256.256", "99999999999", "09.1", "a.0x", "%ff.example", "/.example", "℀.example",
]  # fmt: skip


@pytest.mark.parametrize("host", SAME)
def test_a_host_is_asked_as_browsers_do(host: str) -> None:
    assert ascii_host(host) == SAME[host]
    assert Request(f"http://{host}/").url == f"http://{SAME[host]}/"


@pytest.mark.parametrize("host", IMPOSSIBLE)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(UnicodeError):
        ascii_host(host)
    assert fault_of(host)


def test_a_registered_name_is_that_of_the_addresses() -> None:
    site = Site(name="street", hosts=("straße.de", "*.faß.example", "straße.de:8080"))
    assert site.hosts == ("xn--strae-oqa.de", "*.xn--fa-hia.example", "xn--strae-oqa.de:8080")


@pytest.mark.parametrize(
    "host",
    ["straße.de", "STRASSE.de", "ＧＯ.com", "go.com", "127.1", "a。b", "xn--strae-oqa.de", "xn--strae-oqa.de:80"],
)
def test_all_spellings_of_a_host_belong_to_one_site(host: str) -> None:
    """Its queue, its breaker, its robots.txt and its pace hang on the name."""
    assert Registry().of(f"http://{host}/").name == Registry().of(Request(f"http://{host}/").url).name


@pytest.mark.parametrize(
    "host",
    ["127.1", "0x7f000001", "2130706433", "０x7f.1", "①②⑦.⓪.⓪.①", "%31%32%37.1", "127。1", "loc%61lhost", "ⓛocalhost",
     "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:7f00:1]",
     "10.1", "0xa9fea9fe", "169.254.43518", "ｐｒｉｎｔｅｒ.ｌｏｃａｌ"],
)  # fmt: skip
@pytest.mark.parametrize("as_request", [True, False])
def test_no_spelling_hides_a_private_address(host: str, as_request: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "no")
    url = f"http://{host}/"
    assert refuse_private(Request(url).url if as_request else url, load_config())
