"""The settings of this room, with the pauses between tries as they are."""

from tests.endings.settings import *  # noqa: F403

HARVESTER_BACKOFF_FACTOR = 1.0
