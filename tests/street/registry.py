"""What the registry of sites must know of the street: limits that are told to nobody, logins, and quick breakers."""

from tests.sandbox.street_plan import PASSWORD, USER, HousePlan
from tests.sandbox.street_process import Street

UNTOLD = ("retry_after", "retry_date", "bare", "unavailable")
"""Dialects that say nothing before they refuse."""
TOO_OFTEN = 6
"""Requests a second that the entries allow of limited sites which tell their limit: more than they do."""
CREDENTIALS = {"HARVESTER_SESSION_STREET_USER": USER, "HARVESTER_SESSION_STREET_PASSWORD": PASSWORD}
OPEN_S = 4
"""For how long a breaker is open at first."""
BREAKING = f"""[.breaker]
least_tries = 10
refusals_in_a_row = 5
failures_in_a_row = 5
open_seconds = {OPEN_S}
most_open_seconds = {2 * OPEN_S}
"""


def tables(street: Street) -> dict[str, str]:
    """Lines for Street.register."""
    return {name: BREAKING + _of(street, plan) for name, plan in street.plans.items()}


def _of(street: Street, plan: HousePlan) -> str:
    if plan.dialect in UNTOLD:
        return f"[.politeness]\nwindow_requests = {plan.limit}\nwindow_s = {plan.window_s}\n"
    if plan.kind == "limited":
        return f"[.politeness]\nrequests_per_second = {TOO_OFTEN}\n"
    if plan.kind == "form":
        return f"""[.identities]
kind = "form"
credentials = "STREET"
expired_url = "/login"
[.identities.form]
page = "{street.url(plan.name, "/login")}"
fields = {{username = "{{user}}", password = "{{password}}", go = "1"}}
success = {{cookie = "session"}}
"""
    if plan.kind == "token":
        return f"""[.identities]
kind = "token"
credentials = "STREET"
[.identities.token]
url = "{street.url(plan.name, "/token")}"
body = {{username = "{{user}}", password = "{{password}}"}}
token = "access_token"
"""
    return ""
