"""The request rate that a site allows, and the rules for its robots.txt and usage files."""

from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from harvester.config import Config
from harvester.sites.part import Part


class Limits(NamedTuple):
    """The limits of a site for all workers together."""

    interval_s: float
    """Minimum seconds between two requests; 0 for no interval."""
    concurrency: int
    """Maximum number of concurrent requests. With an interval of 0 it is counted for each worker alone."""
    window_requests: int = 0
    """Maximum number of requests in any `window_s` seconds; 0 if only the interval limits them."""
    window_s: float = 0.0


OWN_SERVERS_AT_ONCE = 16
"""Minimum number of concurrent requests by a worker to a site without a rate."""


class Politeness(Part):
    """The table `[<site>.politeness]`. It applies to all hosts of the site together, and to all workers at a Redis."""

    requests_per_second: float | None = Field(None, ge=0)
    """Default: HARVESTER_REQUESTS_PER_SECOND, or the even rate of the window. 0 for no limit."""
    delay_s: float | None = Field(None, gt=0, le=3600)
    """Minimum seconds between two requests. The slower of delay and rate wins."""
    concurrency: int | None = Field(None, ge=1, le=64)
    """Maximum number of concurrent requests. Default: HARVESTER_CONCURRENT_PER_HOST."""
    window_requests: int | None = Field(None, ge=1, le=100_000)
    """Maximum number of requests in any `window_s` seconds, in any distribution."""
    window_s: float | None = Field(None, gt=0, le=86_400)
    looks_a_day: int | None = Field(None, ge=1, le=10_000_000)
    """Maximum number of visits a day to items of recurring jobs, spread evenly over the day. Default: no limit."""
    obey_crawl_delay: bool = True
    """True if the Crawl-delay of robots.txt slows requests down. It never speeds them up."""
    obey_robots: bool = True
    """May be False only with a `robots_reason`."""
    robots_reason: str = Field("", max_length=300)
    """The reason why robots.txt does not bind harvester here: who allowed it, and where that is written."""
    conditional: bool = False
    """True if a page is requested only if it changed since its records were stored."""
    read_opt_outs: bool = False
    """True if robots.txt, tdmrep.json and ai.txt are read for their rules on training and text mining."""
    honour_opt_outs: Literal["record", "skip"] = "record"
    """`record` writes an opt-out on the records. `skip` does not collect the content that it covers."""

    @model_validator(mode="after")
    def _reason_given(self) -> Self:
        if not self.obey_robots and not self.robots_reason.strip():
            raise ValueError("obey_robots = false needs a robots_reason: who allowed it, and where that is written")
        return self

    @model_validator(mode="after")
    def _whole_window(self) -> Self:
        if (self.window_requests is None) != (self.window_s is None):
            raise ValueError("window_requests and window_s belong together")
        return self

    def limits(self, config: Config) -> Limits:
        """Returns the site's limits, with the defaults from the configuration."""
        rate = self.requests_per_second
        window_requests, window_s = self.window_requests or 0, self.window_s or 0.0
        if rate is None:
            rate = window_requests / window_s if window_s else config.requests_per_second
        interval_s = max(1 / rate if rate else 0.0, self.delay_s or 0.0)
        if window_s:
            interval_s = max(interval_s, 0.001)  # only the shared limiter counts windows, and it needs an interval
        concurrency = self.concurrency or config.concurrent_per_host
        if not interval_s and self.concurrency is None:
            concurrency = max(concurrency, OWN_SERVERS_AT_ONCE)
        return Limits(interval_s, concurrency, window_requests, window_s)
