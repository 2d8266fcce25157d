"""The table of what follows from an outcome is whole and consistent, is used, and a site may say otherwise."""

import ast
from pathlib import Path

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from harvester.exceptions import UsageError
from harvester.frontier.attempts import count
from harvester.outcomes import POLICIES, Outcome, Policy, Verdict, classify
from harvester.outcomes.policies import KINDS
from harvester.outcomes.rules import Rule, RuleBase
from harvester.sites import Site, load_sites, policy_of
from harvester.sites.outcomes import PolicyChange
from tests.outcomes.exchanges import Exchange, page
from tests.outcomes.table import table
from tests.root import ROOT

DOCUMENT = (ROOT / "docs" / "outcomes.md").read_text("utf-8")

O = Outcome  # noqa: E741

REFUSALS = {O.BLOCKED, O.CHALLENGE, O.AUTH_REQUIRED, O.POLICY_DENIED}


def test_every_outcome_has_a_policy() -> None:
    assert set(POLICIES) == set(Outcome)


@pytest.mark.parametrize("outcome", Outcome)
def test_policy_is_consistent(outcome: Outcome) -> None:
    policy = POLICIES[outcome]
    assert policy.retryable or not policy.retries, "what is tried again now is worth a later try too"
    assert policy.retryable or not policy.site, "what says something of the whole site says nothing of this input"
    assert bool(policy.retries) == bool(policy.backoff_s), "no retry without a pause before it"
    assert policy.error != (outcome in {O.OK, O.UNCHANGED, O.EMPTY, O.NOT_FOUND, O.GONE})
    assert policy.error == policy.dead, "what counts as an error can be replayed"
    assert not (outcome in REFUSALS and policy.retries), "a site that says no is left alone"
    assert not (outcome in REFUSALS - {O.BLOCKED} and (policy.escalate or policy.new_identity)), (
        "a refusal by policy never leads to another proxy or identity"
    )


def test_every_field_of_a_policy_is_read_by_somebody() -> None:
    unread = set(Policy._fields)
    for file in (ROOT / "harvester").rglob("*.py"):
        text = file.read_text("utf-8")
        if file.parent.name != "outcomes" and any(f".{name}" in text for name in unread):
            unread -= {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert unread == set()


def test_a_site_may_change_what_follows_and_not_what_an_outcome_is() -> None:
    assert set(PolicyChange.model_fields) == set(Policy._fields) - {*KINDS, "session_cost"}


ENTRY = """
[county]
hosts = ["county.example"]
[county.outcomes]
page_ending = "</html>"
[county.outcomes.policies.blocked]
retries = 2
backoff_s = 30
[county.outcomes.policies.invalid]
dead = false
[[county.outcomes.rules]]
name = "no-parcel"
outcome = "not_found"
status = [200]
text = ["No Such Parcel"]
reason = "the county knows no such parcel"
[[county.outcomes.rules]]
name = "closed"
outcome = "maintenance"
url = ["/closed\\\\.html$"]
[[county.outcomes.rules]]
name = "teapot"
outcome = "ok"
status = [418]
header = ["x-tea: green|black"]
"""


@pytest.fixture
def county(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    (tmp_path / "county.toml").write_text(ENTRY, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    return load_sites().named("county")


def test_a_site_changes_the_fields_that_it_gives_and_no_others(county: Site) -> None:
    assert policy_of(county, O.BLOCKED) == POLICIES[O.BLOCKED]._replace(retries=2, backoff_s=30.0)
    assert policy_of(county, O.INVALID) == POLICIES[O.INVALID]._replace(dead=False)
    other = load_sites().of("https://other.example/")
    for outcome in Outcome:
        assert policy_of(other, outcome) is POLICIES[outcome]
        assert policy_of(county, outcome) == POLICIES[outcome] or outcome in (O.BLOCKED, O.INVALID)


def test_rules_of_a_site_are_tried_before_the_common_ones(county: Site) -> None:
    other = load_sites().of("https://other.example/")
    tea = {"X-Tea": "green"}
    exchanges = [
        (Exchange(O.NOT_FOUND, "no-parcel", 200, page("", "no such parcel here")), O.OK),
        (Exchange(O.MAINTENANCE, "closed", 404, url="https://county.example/closed.html"), O.NOT_FOUND),
        (Exchange(O.OK, "", 418, headers=tea), O.INVALID),
        (Exchange(O.INVALID, "unknown-status", 418), O.INVALID),
        (Exchange(O.NETWORK, "cut-short", 200, "<html><body>half"), O.OK),
        (Exchange(O.NOT_FOUND, "not-found", 404), O.NOT_FOUND),
    ]
    for exchange, elsewhere in exchanges:
        verdict = classify(exchange.response(), exchange.request(), county.outcomes.own)
        assert (verdict.outcome, verdict.rule) == (exchange.outcome, exchange.rule)
        assert classify(exchange.response(), exchange.request(), other.outcomes.own).outcome is elsewhere


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a.outcomes.policies.blokked]\nretries = 1", r"a\.outcomes\.policies\.blokked"),
        ("[a.outcomes.policies.blocked]\nretry = 1", r"a\.outcomes\.policies\.blocked\.retry"),
        ("[a.outcomes.policies.blocked]\nretries = -1", r"a\.outcomes\.policies\.blocked\.retries"),
        ("[[a.outcomes.rules]]\nname = 'x'", r"a\.outcomes\.rules\.0\.outcome: Field required"),
        ("[[a.outcomes.rules]]\nname = 'x'\noutcome = 'nice'", r"a\.outcomes\.rules\.0\.outcome"),
        ("[[a.outcomes.rules]]\nname = 'x'\noutcome = 'ok'\nurl = ['(']", r"a\.outcomes\.rules\.0\.url\.0.*expression"),
        ("[[a.outcomes.rules]]\nname = 'x'\noutcome = 'ok'\nheader = ['x: (']", r"a\.outcomes\.rules\.0\.header\.0"),
        ("[[a.outcomes.rules]]\nname = 'x'\noutcome = 'ok'\nstatus = ['4x']", r"a\.outcomes\.rules\.0\.status\.0"),
        ("[[a.outcomes.rules]]\nname = 'x'\noutcome = 'ok'\nreason = '{why}'", r"a\.outcomes\.rules\.0\.reason.*said"),
        ("[[a.outcomes.rules]]\nname = 'x'\noutcome = 'ok'\nbody = ['x']", r"a\.outcomes\.rules\.0\.body"),
        ("[[a.outcomes.rules]]\nname = 'x'\noutcome = 'ok'", r"a\.outcomes\.rules\.0: .*condition"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named_with_site_and_key(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.toml").write_text(f"[a]\nhosts = ['a.example']\n{text}\n", "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    with pytest.raises(UsageError, match=said):
        load_sites()


def test_document_has_the_table_as_the_code_has_it() -> None:
    """To renew it: python -m tests.outcomes.table"""
    assert table() in DOCUMENT


def test_document_names_every_condition_of_a_rule_and_every_field_of_a_policy() -> None:
    conditions = set(Rule.model_fields) - set(RuleBase.model_fields)
    assert [name for name in conditions if f"| `{name}` |" not in DOCUMENT] == []
    assert [name for name in PolicyChange.model_fields if f"`{name}`" not in DOCUMENT] == []


def test_a_page_that_names_hosts_without_end_fills_no_memory_with_their_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harvester.frontier.attempts.MOST_HOSTS", 10)
    stats = MemoryStatsCollector(get_crawler())
    for number in range(100):
        for _ in range(2):
            count(stats, Verdict(Outcome.DNS, "no such host"), f"http://h{number}.invalid/")
    counted = {name: value for name, value in stats.get_stats().items() if name.startswith("harvester/errors/")}
    assert len(counted) == 11
    assert sum(counted.values()) == 200
    assert counted["harvester/errors/dns/others"] == 180
