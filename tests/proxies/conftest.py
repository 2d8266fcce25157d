"""Sites and proxies as an installation writes them down, and crawls of them."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

Entry = Callable[..., str]


@pytest.fixture
def configured(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Call it with the entries of sites as TOML, and the list of proxies. Variables are then those of this process."""
    monkeypatch.setenv("HARVESTER_REDIS_URL", redis_url)
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "0")
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HARVESTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")

    def configure(sites: str, proxies: str = "") -> None:
        (tmp_path / "sites").mkdir(exist_ok=True)
        (tmp_path / "sites" / "test.toml").write_text(sites)
        monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path / "sites"))
        if proxies:
            (tmp_path / "proxies.txt").write_text(proxies)
            monkeypatch.setenv("HARVESTER_PROXIES_FILE", str(tmp_path / "proxies.txt"))

    return configure


@pytest.fixture
def name() -> str:
    """A name that no other test uses: what is known of a site is kept in Redis by its name."""
    return f"site{uuid4().hex[:10]}"
