"""The table of docs/outcomes.md as the code has it: `python -m tests.outcomes.table`."""

from harvester.outcomes import POLICIES, Policy
from harvester.outcomes.policies import KINDS

HEAD = """\
| Outcome | Tries again | Backoff | Retryable | Counts against | Next try | Ends as | Kind |
|---|---|---|---|---|---|---|---|
"""


def table() -> str:
    return HEAD + "".join(_row(outcome, policy) for outcome, policy in POLICIES.items())


def _row(outcome: str, policy: Policy) -> str:
    backoff = f"{policy.backoff_s:g} s, at most {policy.most_backoff_s:g} s" if policy.retries else ""
    against = {
        "errors": policy.error,
        "row": policy.site,
        "breaker": policy.breaker,
        "session": policy.session,
        "proxy": policy.proxy,
    }
    following = {"another identity": policy.new_identity, "escalate": policy.escalate}
    cells = [
        f"`{outcome}`",
        str(policy.retries or "no"),
        backoff,
        "yes" if policy.retryable else "",
        ", ".join(name for name, counts in against.items() if counts),
        ", ".join(name for name, allowed in following.items() if allowed),
        _end(outcome, policy),
        ", ".join(name.replace("_", " ") for name in KINDS if getattr(policy, name)),
    ]
    return f"| {' | '.join(cells)} |\n".replace("  ", " ")


def _end(outcome: str, policy: Policy) -> str:
    if outcome == "policy_denied":
        return "skipped"
    return "dead letter" if policy.dead else "done"


if __name__ == "__main__":
    print(table(), end="")
