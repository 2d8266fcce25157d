"""An address finds its site; an entry that cannot be used is refused with its file, its site and its key."""

import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from harvester.config import load_config
from harvester.exceptions import UsageError
from harvester.sites import Registry, Site, load_sites
from harvester.spiders.endpoints.definition import read_endpoints
from tests.root import ROOT

SITES = Registry(
    [
        Site(name="county", hosts=("county.example", "*.county.example")),
        Site(name="taxes", hosts=("taxes.county.example",)),
        Site(name="local", hosts=("127.0.0.1:8001",)),
        Site(name="written large", hosts=("LARGE.example:443", "bücher.example", "[::1]")),
    ]
)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://county.example/a", "county"),
        ("https://COUNTY.example:8443/a", "county"),
        ("https://user:secret@gis.county.example/", "county"),
        ("https://a.b.county.example/", "county"),
        ("https://taxes.county.example/", "taxes"),
        ("http://127.0.0.1:8001/", "local"),
        ("http://127.0.0.1:8002/", "127.0.0.1:8002"),
        ("https://county.example.org/", "county.example.org"),
        ("https://notcounty.example/", "notcounty.example"),
        ("https://large.example/", "written large"),
        ("http://large.example/", "large.example"),
        ("https://xn--bcher-kva.example/", "written large"),
        ("http://[::1]:8080/", "written large"),
        ("https://county.example./a", "county"),
        ("https://taxes.county.example.:443/", "taxes"),
        ("https://large.example:443/", "written large"),
        ("https://other.example:443/", "other.example"),
        ("http://other.example.:80/", "other.example"),
        ("http://other.example:443/", "other.example:443"),
        ("https://[2001:db8::1]:443/", "[2001:db8::1]"),
        ("http://no host/", "no host"),
    ],
)
def test_an_address_belongs_to_the_site_whose_host_fits_best_or_to_its_host(url: str, name: str) -> None:
    assert SITES.of(url).name == name


def test_one_host_need_not_be_a_list() -> None:
    assert Site.model_validate({"name": "one", "hosts": "one.example"}).hosts == ("one.example",)


def test_entries_come_from_the_folder_that_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "us").mkdir()
    (tmp_path / "us" / "oh.toml").write_text('[us-oh-ross]\nhosts = ["ross.example"]\n', "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    assert load_sites().of("https://ross.example/").name == "us-oh-ross"
    assert load_sites().named("us-oh-ross").hosts == ("ross.example",)


def test_a_folder_that_kubernetes_mounts_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume of a ConfigMap: `mine.toml -> ..data/mine.toml` and `..data -> ..2026_11_27`."""
    version = tmp_path / "..2026_11_27"
    version.mkdir()
    (version / "mine.toml").write_text('[mine]\nhosts = ["mine.example"]\n', "utf-8")
    (tmp_path / "..data").symlink_to(version.name)
    (tmp_path / "mine.toml").symlink_to("..data/mine.toml")
    (tmp_path / ".#mine.toml").symlink_to("ann@machine.1234")  # Emacs, of a file that is being edited
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    assert load_sites().of("https://mine.example/").name == "mine"


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('[mine]\nhosts = ["mine.example"]\n', "utf-8-sig")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    assert load_sites().named("mine").hosts == ("mine.example",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a", "bad.toml"),
        ('[a]\nhosts = ["a.example"]\n[a.breaker]\nopen_seconds = 7200', "most_open_seconds"),
        ("name = 'a'", "name "),
        ("[a]\nhosts = []", "a: .*`hosts`"),
        ("[a]", "a: .*`hosts`"),
        ("[a]\nhosts = ['x']\ncolour = 'red'", "a.colour: .*breaker, browser, hosts"),
        ("[a]\nhosts = ['x']\npolitness = {}", "a.politness: .*politeness"),
        ("[a]\nhosts = ['x']\n[a.politeness]\nrequest_per_second = 1", "request_per_second: .*requests_per_second"),
        (
            "[a]\nhosts = ['x']\n[a.outcomes.policies.proxy]\nretrys = 1",
            "a.outcomes.policies.proxy.retrys: .*retries",
        ),
        (
            "[a]\nhosts = ['x']\n[[a.outcomes.rules]]\nnam = 'x'",
            "a.outcomes.rules.0.nam: .*name",
        ),
        (
            "[a.proxy]\ntiers = ['none', 'isp']\nvendor = 'list'\ncheaper_again_s = inf",
            "a.proxy.cheaper_again_s: ",
        ),
        ("[a.politeness]\ndelay_s = inf", "a.politeness.delay_s: "),
        (
            "[a]\nhosts = ['x']\n[a.browser]\nsteps = [{ scroll = 'up' }]",
            "a.browser.steps.0.scroll: ",
        ),
        (
            "[a]\nhosts = ['https://a.example/list']",
            ": 'a.example'",
        ),
        ("[a]\nhosts = ['a.example/list']", ": 'a.example'"),
        ("[a]\nhosts = ['//u:p@a.example:8080']", ": 'a.example:8080'"),
        ("[a]\nhosts = ['a example']", "a.hosts.0: 'a example'"),
        ("[a]\nhosts = ['*']", r"a.hosts.0: '\*'"),
        ("[a]\nhosts = ['*.a.example:8080']", "port"),
        (
            "[a]\nhosts = ['x.example']\n[b]\nhosts = ['X.example']",
            r"x.example .*\[a\].*\[b\]",
        ),
        ("[a]\nhosts = ['x']\n[a.judging]\npage_ending = '</html>'", "a.judging: .*`outcomes`"),
        ("[a]\nhosts = ['x']\n[a.breaking]\nprobes = 1", "a.breaking: .*`breaker`"),
        ("[a]\nhosts = ['x']\n[a.proxying]\ntiers = ['none']", "a.proxying: .*`proxy`"),
        ("[a]\nhosts = ['x']\n[a.rendering]\nrender = true", "a.rendering: .*`browser`"),
        ("[a]\nhosts = ['x']\n[a.transport]\nhttp2 = true", "a.transport: .*`http`"),
        ("[a]\nhosts = ['x']\n[a.outcomes.policies.blocked]\nlater = true", "blocked.later: .*`retryable`"),
        ("[a]\nhosts = ['x']\n[a.outcomes.policies.proxy]\ndearer = true", "proxy.dearer: .*`escalate`"),
        (
            "[a]\nhosts = ['x']\n[a.breaker]\nwindow_seconds = inf",
            "a.breaker.window_seconds: ",
        ),
        (
            "[a]\nhosts = ['x']\n[a.politeness]\nrequests_per_second = inf",
            "requests_per_second: ",
        ),
        ("[a]\nhosts = ['x']\n[a.identities]\ncredentials = 'X'", "a.identities: .*`kind`"),
        (
            "[a]\nhosts = ['x']\n[a.identities.form]\npage = 'https://x/'\nfields = {}\nsuccess = { cookie = 'c' }",
            "a.identities: .*`kind`",
        ),
        ("[a]\nhosts = ['x']\nplatform = ['vgsi']", "a.platform: "),
        ("[a]\nname = 'b'\nhosts = ['x']", r"name .*\[a\]"),
        ("[a]\nhosts = ['x']\n[a.politeness]\nhurry = true", "a.politeness.hurry"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.toml").write_text(text, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    with pytest.raises(UsageError, match=said) as raised:
        load_sites()
    assert "bad.toml" in str(raised.value) or "x.example" in said
    assert "Value error" not in str(raised.value)


def test_two_entries_of_one_name_are_refused_with_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.toml").write_text("[a]\nhosts = ['one.example']", "utf-8")
    (tmp_path / "us").mkdir()
    (tmp_path / "us" / "two.toml").write_text("[a]\nhosts = ['two.example']", "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    with pytest.raises(UsageError, match=r"\[a\] .*one\.toml.*two\.toml"):
        load_sites()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nowhere"):
        load_sites()


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other permissions there")
def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sites").mkdir(mode=0)
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path / "sites"))
    load_config()  # before this process is another user
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        with pytest.raises(UsageError, match=r"HARVESTER_SITES_DIR: .*sites .*Permission denied"):
            load_sites()
    finally:
        if is_root:
            os.seteuid(0)


def test_a_file_that_is_nested_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("a = " + "[" * 5000, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    with pytest.raises(UsageError, match=r"bad\.toml"):
        load_sites()
    with pytest.raises(UsageError, match=r"bad\.toml .*TOML"):
        read_endpoints(f"@{file}")


OTHER_FILES = {"adding-a-platform.md", "endpoints.md", "publishing.md"}
"""Pages whose TOML is that of other files: tests/docs, tests/endpoints and tests/publish read it."""
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if page.name not in OTHER_FILES
    for number, block in enumerate(
        re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
]
"""Of all pages: entries of sites, or parts of them."""


@pytest.mark.parametrize("block", BLOCKS)
def test_what_the_pages_say_of_an_entry_can_be_used(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = tomllib.loads(block)
    if not any("hosts" in entry or "property" in entry for entry in entries.values()):
        assert len(entries) == 1
        block = f'[{next(iter(entries))}]\nhosts = ["part.example"]\n{block}'
        entries = tomllib.loads(block.partition("\n[")[0])
    (tmp_path / "sites.toml").write_text(block, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    sites = load_sites()
    for name, entry in entries.items():
        hosts = entry.get("hosts", ())
        assert {sites.of(f"https://{host.replace('*', 'www')}/").name for host in hosts} == ({name} if hosts else set())
        assert sites.named(name).model_fields_set >= {*entry}


def test_the_pages_name_all_parts_of_an_entry() -> None:
    page = (ROOT / "docs" / "adding-a-site.md").read_text("utf-8")
    table = page.partition("| Part of an entry |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(
        {*Site.model_fields} - {"name", "hosts"}
    )
