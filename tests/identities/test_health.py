"""Health decays and heals."""

from harvester.identities.health import AFTER_REST, FLOOR, HEALING_S, MOST_REST_S, REST_S, IdentityHealth
from harvester.outcomes import Outcome

NOW = 1_800_000_000.0


def test_refusals_wear_down_by_their_weight_and_time_heals() -> None:
    blocked, limited = IdentityHealth(), IdentityHealth()
    assert (blocked.bad(Outcome.BLOCKED, NOW), limited.bad(Outcome.RATE_LIMITED, NOW)) == (0.0, 0.0)
    assert blocked.level(NOW) < limited.level(NOW) < 1.0
    assert blocked.level(NOW + HEALING_S) == 0.75
    assert blocked.level(NOW + 100 * HEALING_S) > 0.999


def test_good_answers_heal() -> None:
    health = IdentityHealth()
    health.bad(Outcome.BLOCKED, NOW)
    levels = [health.level(NOW)]
    for _ in range(50):
        health.good(NOW)
        levels.append(health.level(NOW))
    assert levels == sorted(levels)
    assert levels[-1] > 0.95


def test_worn_out_identity_rests_longer_each_time_until_it_is_well() -> None:
    health, now, rests = IdentityHealth(), NOW, []
    for _ in range(9):
        while not (rest_s := health.bad(Outcome.BLOCKED, now)):
            pass
        rests.append(rest_s)
        assert health.level(now) == AFTER_REST > FLOOR
        now = health.rest_until
    assert rests[:3] == [REST_S, 2 * REST_S, 4 * REST_S]
    assert rests[-1] == MOST_REST_S
    for _ in range(100):
        health.good(now)
    while not (rest_s := health.bad(Outcome.BLOCKED, now)):
        pass
    assert rest_s == REST_S


def test_answers_to_what_was_sent_before_a_rest_do_not_lengthen_it() -> None:
    health = IdentityHealth()
    while not health.bad(Outcome.BLOCKED, NOW):
        pass
    until = health.rest_until
    assert [health.bad(Outcome.BLOCKED, NOW + 1) for _ in range(50)] == [0.0] * 50
    assert (health.rest_until, health.rests) == (until, 1)


def test_health_is_kept_whole() -> None:
    health = IdentityHealth()
    while not health.bad(Outcome.CHALLENGE, NOW):
        pass
    again = IdentityHealth(*health.kept())
    assert (again.level(NOW + 500), again.rest_until, again.rests) == (health.level(NOW + 500), health.rest_until, 1)
