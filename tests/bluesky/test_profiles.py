"""An account or a seed whose profile is no good is never done."""

from collections.abc import Callable

from tests.bluesky.conftest import Records
from tests.crash.harvest import Harvest
from tests.sandbox.process import Sandbox

Make = Callable[..., Harvest]
SEED, UNREADABLE, ANOTHERS, OTHER = 20, 21, 22, 23


def test_a_profile_that_cannot_be_read_or_is_anothers_is_the_fate_of_its_account_or_seed(
    harvest: Make, site: Sandbox, mongodb: Records
) -> None:
    wanted = [site.handle(SEED), site.did(UNREADABLE), site.did(ANOTHERS)]
    site.fault("drop_field", match=f"getProfile.*({site.handle(SEED)}|{site.did(UNREADABLE)}).*", field="did")
    site.fault("replace", match=f"getProfile.*{site.did(ANOTHERS)}", old=site.did(ANOTHERS), new=site.did(OTHER))
    command = harvest(seeds=",".join(wanted), depth="0", collect="profiles")
    command.run()
    items = {row["key"]: (row["state"], row.get("reason", "")) for row in mongodb.job_items.find()}
    unread = ("failed", "rejected: Object missing required field `did`")
    state, reason = items.pop(wanted[2])
    assert (state, wanted[2] in reason, site.did(OTHER) in reason) == ("waiting", True, True), command.said
    assert items == {wanted[0]: unread, wanted[1]: unread}, command.said
