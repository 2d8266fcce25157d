"""harvester's settings; a page that is given no more, and a login that is refused, are waited for shortly and once."""

from harvester.browser import steps
from harvester.identities import crawl_identities as identities
from harvester.outcomes import Outcome
from harvester.outcomes.policies import POLICIES
from harvester.settings import *  # noqa: F403

steps.STALLED_S = 3.0  # 10.0
identities.OTHERS_S, identities.REFUSED_WAIT_S = 2.0, 1.0  # 30.0
POLICIES[Outcome.NAVIGATION_FAILED] = POLICIES[Outcome.NAVIGATION_FAILED]._replace(retries=0)  # type: ignore[index]
