"""The policy `cron`: visits at the times of a cron expression, in a time zone."""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from harvester.exceptions import UsageError
from harvester.recheck.policy import Due, Look

_EXAMPLE = 'write for example "cron 0 7 * * mon-fri in Europe/Berlin"'


class Cron(msgspec.Struct, frozen=True):
    """Visits at each time of `expression`: minute, hour, day, month, weekday. One visit makes up for all that were
    missed."""

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if len(self.expression.split()) != 5:
            raise UsageError(f"{self.expression!r} has not the five fields of a cron expression; {_EXAMPLE}")
        try:
            ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError):  # OSError: a prefix of zone names is a folder
            raise UsageError(f"{self.zone!r} is no time zone; {_EXAMPLE}") from None
        try:
            self.after(datetime(2000, 1, 1, tzinfo=UTC).timestamp())
        except (CronSimError, ValueError) as error:
            raise UsageError(f"{self.expression!r} is no cron expression ({error}); {_EXAMPLE}") from None
        except StopIteration:
            raise UsageError(f"{self.expression!r} names a day that never comes; {_EXAMPLE}") from None

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        return Due(self.after(looks[-1].at if looks else now), f"the next time of {self}")

    def after(self, at: float) -> float:
        """Returns the first time of the expression after `at`."""
        return next(CronSim(self.expression, datetime.fromtimestamp(at, ZoneInfo(self.zone)))).timestamp()

    def __str__(self) -> str:
        return f"cron {self.expression}" + (f" in {self.zone}" if self.zone != "UTC" else "")
