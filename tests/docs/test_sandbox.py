"""docs/sandbox.md says what `harvester sandbox` does, and what is in it."""

import inspect
import json
import re
import shlex
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from harvester.cli.sandbox import PORT, sandbox_command
from harvester.sandbox.environment import settings
from harvester.sandbox.faults import KINDS
from harvester.sandbox.network import SPECIAL, Network
from tests.docs.test_docs import DOCS
from tests.sandbox.process import Sandbox

PAGE = (DOCS / "sandbox.md").read_text("utf-8")
CALLS = re.findall(r"^curl .*", PAGE, re.MULTILINE)


def ask(site: Sandbox, command: str) -> Any:
    """What curl would be answered."""
    words = shlex.split(command)[1:]
    data = words[words.index("-d") + 1].encode() if "-d" in words else None
    method = words[words.index("-X") + 1] if "-X" in words else None
    url = words[-1].replace(f"http://127.0.0.1:{PORT}", site.url)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with urllib.request.urlopen(urllib.request.Request(url, data, form, method=method), timeout=30) as answer:
        return json.load(answer)


def test_the_page_names_options_settings_special_accounts_and_faults_as_they_are() -> None:
    options = {name: each.default for name, each in inspect.signature(sandbox_command).parameters.items()}
    del options["command"]
    assert dict(re.findall(r"^\| `--(\w+)` \| (\d+) \|", PAGE, re.MULTILINE)) == {
        name: str(default) for name, default in options.items()
    }
    assert set(settings("http://127.0.0.1:1", Path("/x"))) <= set(re.findall(r"`(HARVESTER_\w+)`", PAGE))
    network = Network(options["accounts"], options["seed"])
    accounts = [network.handle(index) for index in range(len(SPECIAL))]
    assert re.findall(r"^\| `([\w.-]+\.sandbox\.test)` \|", PAGE, re.MULTILINE) == accounts
    assert set(re.findall(r"`(\w+)`", PAGE.partition("| The answer | Kinds |")[2])) >= KINDS


def test_what_the_page_asks_of_a_running_sandbox_is_understood() -> None:
    with Sandbox(accounts=20, posts=3) as site:
        told = [ask(site, command) for command in CALLS]
        switched, listed = told[:3], told[3]
        assert [fault["kind"] for fault in listed] == [fault["kind"] for fault in switched]
        assert told[4:6] == [listed[1:], []], "one fault ended, then all"
        log, truth, limits, turned, sources = told[6:]
        assert log["total"] == 0
        assert len(truth["accounts"]) > 10
        assert limits == {"pds_limit": 100, "window_seconds": 10}
        assert turned == {"clock_forward": 604_800}
        assert sources == {"quotas_left": 2, "mastodon_access": "disabled", "tiktok_pages": {"US": 1}}
        no_numbers = ('{"kind": "slow", "every": 0}', '{"kind": "slow", "seconds": "x"}')
        for bad in ('{"kind": "noise"}', "{", "[]", '{"kind": "slow", "match": "("}', *no_numbers):
            with pytest.raises(HTTPError) as refused:
                ask(site, f"curl -d {shlex.quote(bad)} http://127.0.0.1:{PORT}/_control/faults")
            assert (refused.value.code, list(json.load(refused.value))) == (400, ["error"])
            refused.value.close()
        assert ask(site, CALLS[3]) == []
