"""Settings of harvester, but that accounts which are looked at again are hardly ever read from their beginning."""

from datetime import timedelta

from harvester.settings import *  # noqa: F403
from harvester.spiders.bluesky import revisits

revisits.WHOLE_EVERY = timedelta(days=36_500)
