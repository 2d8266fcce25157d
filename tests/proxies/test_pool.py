"""Which proxy is next, and what an installation's variables and lists say."""

import sys
import time
from pathlib import Path

import pytest
from pydantic import SecretStr

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.proxies import pool
from harvester.proxies.accounts import Proxy, proxies_of
from harvester.proxies.endpoints import ProxyAccount
from harvester.proxies.pool import ProxyPool
from harvester.sites.proxy_spec import Tier, Vendor

NAMES = [f"10.0.0.{number}:8080" for number in range(6)]


def pool_of(*names: str, refused: set[str] | None = None) -> ProxyPool:
    return ProxyPool(
        [Proxy(name, ProxyAccount(f"http://{name}")) for name in names], refused if refused is not None else set()
    )


def picked(proxies: ProxyPool, session: str = "", *, strict: bool = False) -> str | None:
    proxy = proxies.pick(session, strict=strict)
    return proxy.name if proxy else None


def test_a_bad_proxy_rests_and_comes_back_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "FIRST_REST_S", 0.0001)
    monkeypatch.setattr(pool, "LONGEST_REST_S", 0.0001)
    proxies = pool_of(*NAMES[:1])
    proxies.bad(NAMES[0])
    assert proxies.counts() == (0, 1)
    time.sleep(0.01)
    assert picked(proxies) == NAMES[0]


def test_rests_get_longer_and_those_who_asked_at_the_same_time_count_once() -> None:
    proxies = pool_of(*NAMES[:2])
    for _ in range(50):
        proxies.bad(NAMES[0])
    assert {picked(proxies) for _ in range(50)} == {NAMES[1]}
    assert proxies.has_other(NAMES[0])
    assert not proxies.has_other(NAMES[1])
    proxies.bad(NAMES[1])
    assert picked(proxies) is None
    assert 0 <= proxies.rest_s() <= pool.FIRST_REST_S
    assert not proxies.is_refused


def test_a_session_keeps_its_proxy_as_long_as_that_lives() -> None:
    proxies = pool_of(*NAMES)
    mine = picked(proxies, "s1")
    assert mine
    assert {picked(proxies, "s1") for _ in range(20)} == {mine}
    assert len({picked(proxies, f"s{number}") for number in range(100)}) == len(NAMES)
    for name in NAMES:
        if name != mine:
            proxies.bad(name)
    assert picked(proxies, "s1") == mine
    proxies = pool_of(*NAMES)
    proxies.bad(mine)
    assert picked(proxies, "s1") not in (None, mine)
    assert picked(proxies, "s1", strict=True) is None


def test_a_refused_proxy_never_comes_back() -> None:
    refused: set[str] = set()
    proxies = pool_of(*NAMES[:2], refused=refused)
    refused.add(NAMES[0])
    assert {picked(proxies) for _ in range(50)} == {NAMES[1]}
    refused.add(NAMES[1])
    assert picked(proxies) is None
    assert proxies.is_refused


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rotating_proxies.expire", None)
    with pytest.raises(UsageError, match="`proxies`"):
        pool_of(*NAMES)


def test_a_list_is_read(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_text(
        "# mine\n\nhttp://ann:p%40ss@10.0.0.1:8080\n10.0.0.2:3128 datacenter us\n"
        "https://bob:word@proxy.test:443 residential de\nhttp://eve:other@10.0.0.1:8080\n"
    )
    config = Config(proxies_file=file)
    one, two, three = proxies_of(config, Vendor.LIST, Tier.DATACENTER)
    assert (one.name, one.account) == ("10.0.0.1:8080", ProxyAccount("http://10.0.0.1:8080", "ann", "p@ss"))
    assert (two.account.address, two.account.user, two.country) == ("http://10.0.0.2:3128", "", "us")
    assert (three.name, three.account.user) == ("10.0.0.1:8080#6", "eve")
    [four] = proxies_of(config, Vendor.LIST, Tier.RESIDENTIAL)
    assert (four.account.address, four.country) == ("https://proxy.test:443", "de")


def test_a_list_may_begin_with_the_mark_of_windows(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_text("http://ann:word@10.0.0.1:8080\n", "utf-8-sig")
    [one] = proxies_of(Config(proxies_file=file), Vendor.LIST, Tier.DATACENTER)
    assert one.account == ProxyAccount("http://10.0.0.1:8080", "ann", "word")


def test_proxies_that_differ_in_anything_have_different_names_and_the_same_one_has_one(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_text(
        "http://ann-session-1:s3cret@10.0.0.1:8080\n"
        "http://ann-session-2:s3cret@10.0.0.1:8080\n"
        "https://ann-session-1:s3cret@10.0.0.1:8080\n"
        "http://ann-session-1:0ther@10.0.0.1:8080\n"
        "http://ann-session-1:s3cret@10.0.0.1:8081\n"
        "http://eve:s3cret@10.0.0.1:8080 residential\n"
        "http://ann-session-1:s3cret@10.0.0.1:8080 residential\n"
        "http://ann-session-1:s3cret@10.0.0.1:8080\n"
    )
    config = Config(proxies_file=file)
    cheap, dear = (proxies_of(config, Vendor.LIST, tier) for tier in (Tier.DATACENTER, Tier.RESIDENTIAL))
    names = {proxy.account: proxy.name for proxy in (*cheap, *dear)}
    assert len(names) == len(set(names.values())) == 6
    assert len(cheap) == 5, "one that is there twice is one proxy"
    assert dear[1].name == cheap[0].name, "who is refused in one tier is refused in the other"
    assert not [word for word in ("ann", "eve", "s3cret", "0ther") if word in repr([*cheap, *dear])]


def test_who_is_refused_at_an_address_takes_no_other_user_with_him(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("http://ann:word@10.0.0.1:8080\nhttp://eve:word@10.0.0.1:8080 residential\n")
    config = Config(proxies_file=tmp_path / "list")
    refused: set[str] = set()
    cheap, dear = (
        ProxyPool(proxies_of(config, Vendor.LIST, Tier(tier)), refused) for tier in ("datacenter", "residential")
    )
    proxy = cheap.pick()
    assert proxy
    refused.add(proxy.name)
    assert cheap.is_refused
    assert dear.pick() is not None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("socks5://ann:w0rd@10.0.0.1:1080", "line 1: .* https"),
        ("w0rd://x@10.0.0.1:1080", "line 1: .* https"),
        ("10.0.0.1:80 ann w0rd", "line 1: .* second word"),
        ("10.0.0.1:80 w0rd", "line 1: .* second word"),
        ("http://ann:w0rd@10.0.0.1", "line 1: not like"),
        ("http://ann:w0rd@10.0.0.1:http", "line 1: not like"),
        ("http://ann:w0rd@[10.0.0.1:80", "line 1: not like"),
        ("http://ann:w0rd\u2100@10.0.0.1:80", "line 1: not like"),
        ("http://ann:80#w0rd@10.0.0.1:80", "line 1: .*#.* password"),
        ("http://ann:80/w0rd@10.0.0.1:80", "line 1: not like"),
        ("http://ann:w0rd@10.0.0.1:80 cheap", "line 1: .* second word"),
        ("http://ann:w0rd@10.0.0.1:80 isp USA", "line 1: a country"),
        ("http://ann:w0rd@10.0.0.1:80 isp", "tier datacenter"),
    ],
)
def test_a_bad_list_is_named_by_line_and_shown_by_no_content(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "list"
    file.write_text(line, "utf-8")
    with pytest.raises(UsageError, match=complaint) as raised:
        proxies_of(Config(proxies_file=file), Vendor.LIST, Tier.DATACENTER)
    assert not [word for word in ("w0rd", "ann") if word in str(raised.value)]


def test_gateways_are_those_of_the_variables() -> None:
    config = Config(
        brightdata_customer=SecretStr("c1"),
        brightdata_zones=SecretStr("datacenter=dc:pw1 residential=res:p%20w@127.0.0.1:99"),
        oxylabs_users=SecretStr("residential=ann:pw2 datacenter=bob:pw3@dc.oxylabs.io:8000 isp=eve:pw4"),
        zyte_api_key=SecretStr("key"),
    )
    told = {
        (vendor, tier): proxies_of(config, Vendor(vendor), Tier(tier))[0].account
        for vendor, tier in (
            ("brightdata", "datacenter"), ("brightdata", "residential"), ("oxylabs", "residential"),
            ("oxylabs", "datacenter"), ("zyte", "datacenter"),
        )
    }  # fmt: skip
    assert told == {
        ("brightdata", "datacenter"): ProxyAccount("http://brd.superproxy.io:33335", "brd-customer-c1-zone-dc", "pw1"),
        ("brightdata", "residential"): ProxyAccount("http://127.0.0.1:99", "brd-customer-c1-zone-res", "p w"),
        ("oxylabs", "residential"): ProxyAccount("http://pr.oxylabs.io:7777", "customer-ann", "pw2"),
        ("oxylabs", "datacenter"): ProxyAccount("http://dc.oxylabs.io:8000", "customer-bob", "pw3"),
        ("zyte", "datacenter"): ProxyAccount("http://api.zyte.com:8011", "key", ""),
    }
    with pytest.raises(UsageError, match=r"HARVESTER_OXYLABS_USERS: .*isp .*@host:port"):
        proxies_of(config, Vendor.OXYLABS, Tier.ISP)
    with pytest.raises(UsageError, match=r"HARVESTER_BRIGHTDATA_ZONES .*mobile"):
        proxies_of(config, Vendor.BRIGHTDATA, Tier.MOBILE)


@pytest.mark.parametrize("vendor", list(Vendor))
def test_what_is_not_set_is_named(vendor: Vendor) -> None:
    with pytest.raises(UsageError, match="HARVESTER_"):
        proxies_of(Config(), vendor, Tier.DATACENTER)
