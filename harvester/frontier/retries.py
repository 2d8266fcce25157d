"""Limits of retries that a project sets with Scrapy's own settings RETRY_*."""

from scrapy import Request
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

NEVER = -1
"""The limit of requests that must not be retried."""
HARVESTERS_ADJUSTMENT = 10
"""Number that is added to the priority of a retry, so that a request is finished before others begin."""


class ProjectRetries:
    """The settings RETRY_* that the project sets. The table of outcomes decides the others."""

    def __init__(self, settings: BaseSettings) -> None:
        def is_set(name: str) -> bool:
            return (settings.getpriority(name) or 0) > 0  # harvester does not set any

        self._is_on = settings.getbool("RETRY_ENABLED")
        self._times = settings.getint("RETRY_TIMES")
        self._bounds = is_set("RETRY_TIMES")
        self._statuses = {int(status) for status in settings.getlist("RETRY_HTTP_CODES")}
        self._names_statuses = is_set("RETRY_HTTP_CODES")
        named = settings.getlist("RETRY_EXCEPTIONS") if is_set("RETRY_EXCEPTIONS") else ()
        self._exceptions = tuple(load_object(each) if isinstance(each, str) else each for each in named)
        self._names_exceptions = is_set("RETRY_EXCEPTIONS")
        set_adjustment = settings.getint("RETRY_PRIORITY_ADJUST") if is_set("RETRY_PRIORITY_ADJUST") else None
        self._adjustment = HARVESTERS_ADJUSTMENT if set_adjustment is None else set_adjustment

    def bound(self, request: Request, failed: Response | Exception, retries: int) -> int | None:
        """Returns the maximum number of retries after such a failure, counted in meta["retry_times"].

        None: the policy's own limit applies, `retries`.
        """
        if not self._is_on:
            return NEVER
        is_named = self._names(failed)
        if is_named is False:
            return NEVER
        times: int | None = request.meta.get("max_retry_times")
        if times is None and (self._bounds or is_named):
            times = self._times
        return times if times is None or is_named or retries else NEVER

    def adjustment(self, request: Request) -> int:
        """Returns the number that is added to the priority of a retry."""
        adjustment: int = request.meta.get("priority_adjust", self._adjustment)
        return adjustment

    def _names(self, failed: Response | Exception) -> bool | None:
        """Returns True if the project wants a retry; None if its settings leave that open, as for success statuses."""
        if isinstance(failed, Exception):
            return isinstance(failed, self._exceptions) if self._names_exceptions else None
        if not self._names_statuses or 200 <= failed.status < 300:
            return None
        return failed.status in self._statuses
