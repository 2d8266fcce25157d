"""Tokens: nobody is let in without one, and what is kept of them opens nothing."""

import asyncio
from datetime import timedelta

import pytest

from harvester.config import Config
from harvester.control import auth, limits
from harvester.control.tokens import FILE, TOKENS, Scope, kept_token
from harvester.exceptions import UsageError
from tests.control.serving import Controller
from tests.jobs.command import Jobs


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer harvester_000000000000_" + "0" * 64,
        "bearer \u00fc".encode("latin-1"),
        "Bearer " + "x" * 4000,
    ],
)
async def test_nothing_of_the_api_is_answered_without_a_token(control: Controller, given: str | bytes | None) -> None:
    headers = {} if given is None else {"Authorization": given}
    for path in ("/api/v1/jobs", "/api/v1/jobs/a-job", "/api/v1/openapi.json", "/api/v1/nothing", "/api/"):
        answer = await control.http.get(path, headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 401, path
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["type"] == "urn:harvester:problem:unauthorized"


async def test_only_digests_are_kept(control: Controller) -> None:
    rows = await control.context.database[TOKENS].find().to_list()
    assert len(rows) == 3
    assert not any(text.rpartition("_")[2] in str(rows) for text in control.tokens.values())


async def test_a_token_is_good_until_it_is_revoked(control: Controller) -> None:
    assert (await control.get("/jobs")).status_code == 200
    (token,) = [each for each in await control.context.tokens.list() if each.scope is Scope.READ]
    await control.context.tokens.revoke(token.name)
    assert (await control.get("/jobs")).status_code == 401
    with pytest.raises(UsageError, match=token.name):
        await control.context.tokens.revoke(token.name)


async def test_a_token_ends_with_its_time(control: Controller) -> None:
    _, text = await control.context.tokens.add("for a moment", Scope.READ, timedelta(seconds=-1))
    assert await control.context.tokens.holder(text) is None


def test_a_larger_scope_may_do_what_a_smaller_one_may() -> None:
    allowed = {(has, wants) for has in Scope for wants in Scope if has.allows(wants)}
    admin, operate, read = Scope.ADMIN, Scope.OPERATE, Scope.READ
    assert allowed == {(admin, each) for each in Scope} | {(operate, operate), (operate, read), (read, read)}


async def test_who_guesses_waits_and_whoever_has_a_token_does_not(control: Controller) -> None:
    assert (await control.get("/jobs")).status_code == 200
    wrong = {"Authorization": "Bearer harvester_000000000000_" + "0" * 64}
    codes = [(await control.http.get("/api/v1/jobs", headers=wrong)).status_code for _ in range(limits.MOST_FAILURES)]
    assert set(codes) == {401}
    refused = await control.http.get("/api/v1/jobs", headers=wrong)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= limits.FAILURES_S + 1
    assert (await control.get("/jobs", Scope.ADMIN)).status_code == 429, "not even a right guess is told from others"
    assert (await control.get("/jobs", Scope.READ)).status_code == 200, "one that was good before goes on"


async def test_a_cookie_stands_for_its_token_and_cannot_be_made_up(control: Controller) -> None:
    context = control.context
    (token,) = [each for each in await context.tokens.list() if each.scope is Scope.READ]
    cookie = auth.cookie_of(context, token)
    assert await auth.token_of_cookie(context, cookie) == token
    first, until, signature = cookie.split(".")
    other = next(each.id for each in await context.tokens.list() if each.id != token.id)
    for made_up in (f"{other}.{until}.{signature}", f"{first}.{int(until) + 1}.{signature}", f"{first}.{until}.", ""):
        assert await auth.token_of_cookie(context, made_up) is None
    answer = await control.http.get("/api/v1/jobs", headers={"Cookie": f"{auth.COOKIE}={cookie}"})
    assert answer.status_code == 200
    await context.tokens.revoke(token.id)
    assert await auth.token_of_cookie(context, cookie) is None


async def test_the_token_of_this_machine_is_kept_closed_and_used_again(control: Controller, config: Config) -> None:
    text, is_new = await kept_token(config, control.context.tokens)
    path = config.state_dir / FILE
    assert is_new
    assert path.stat().st_mode & 0o777 == 0o600
    assert await kept_token(config, control.context.tokens) == (text, False)
    await control.context.tokens.revoke("harvester up")
    assert (await kept_token(config, control.context.tokens))[0] != text
    path.chmod(0o644)
    with pytest.raises(UsageError, match=str(path)):
        await kept_token(config, control.context.tokens)


def test_tokens_are_made_listed_and_revoked_by_command(jobs: Jobs) -> None:
    made = jobs.harvester("tokens", "add", "Ann", "--scope", "operate", "--days", "3", "--json")
    assert made.code == 0, made.err
    listed = jobs.harvester("tokens", "list", "--json")
    (token,) = listed.json
    assert (token["id"], token["name"], token["scope"]) == (made.json["id"], "Ann", "operate")
    assert made.json["token"].startswith(f"harvester_{token['id']}_")
    assert made.json["token"] not in listed.out
    assert "Ann" in jobs.harvester("tokens", "list").out
    revoked = jobs.harvester("tokens", "revoke", "Ann").out
    assert (token["id"] in revoked, "Ann" in revoked) == (True, True)
    assert jobs.harvester("tokens", "list").out == "None.\n"
    assert jobs.harvester("tokens", "revoke", "Ann").code == 2
    assert jobs.harvester("tokens", "add", "Ann", "--scope", "all").code == 2
    assert jobs.harvester("tokens", "add", "", "--scope", "read").code == 2


async def test_two_that_ask_at_once_get_the_token_that_works(control: Controller, config: Config) -> None:
    given = await asyncio.gather(*(kept_token(config, control.context.tokens) for _ in range(2)))
    assert all([await control.context.tokens.holder(text) for text, _ in given])
