"""How fast a site may be asked, and what it says of that."""

from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from harvester.config import Config
from harvester.sites.part import Part


class Limits(NamedTuple):
    """What a site allows all workers together."""

    interval_s: float
    """The least time between two requests. 0: none is kept."""
    concurrency: int
    """Requests at the same time; with an interval of 0 those of one worker."""
    window_requests: int = 0
    """The most requests in any `window_s` seconds. 0: as many as the interval allows."""
    window_s: float = 0.0


OWN_SERVERS_AT_ONCE = 16
"""The fewest requests at the same time that a site without a rate is asked by one worker."""


class Politeness(Part):
    """The table `[<site>.politeness]`. All hosts of the site share it, and all workers of one Redis."""

    requests_per_second: float | None = Field(None, ge=0)
    """None: HARVESTER_REQUESTS_PER_SECOND, or what the window makes when evenly used. 0: no limit."""
    delay_s: float | None = Field(None, gt=0, le=3600)
    """The least seconds between two requests, when that says it better. The slower of the two wins."""
    concurrency: int | None = Field(None, ge=1, le=64)
    """The most requests at the same time. None: HARVESTER_CONCURRENT_PER_HOST."""
    window_requests: int | None = Field(None, ge=1, le=100_000)
    """The most requests in any `window_s` seconds, however they fall."""
    window_s: float | None = Field(None, gt=0, le=86_400)
    looks_a_day: int | None = Field(None, ge=1, le=10_000_000)
    """The most looks a day at items of standing jobs, evenly spread over the day. None: as many as are due."""
    obey_crawl_delay: bool = True
    """Whether the Crawl-delay of robots.txt slows requests down. It never speeds them up."""
    obey_robots: bool = True
    """False only together with `robots_reason`."""
    robots_reason: str = Field("", max_length=300)
    """Why robots.txt does not bind harvester here: who allowed it, and where that is written."""
    conditional: bool = False
    """Whether pages are asked for only if they changed since their records were stored."""
    read_opt_outs: bool = False
    """Whether robots.txt, tdmrep.json and ai.txt are read for what they say of training and text mining."""
    honour_opt_outs: Literal["record", "skip"] = "record"
    """`record`: an opt-out is written on the records. `skip`: what it speaks of is not collected."""

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
        """What holds for the site, with what the configuration says of all."""
        rate = self.requests_per_second
        window_requests, window_s = self.window_requests or 0, self.window_s or 0.0
        if rate is None:
            rate = window_requests / window_s if window_s else config.requests_per_second
        interval_s = max(1 / rate if rate else 0.0, self.delay_s or 0.0)
        if window_s:
            interval_s = max(interval_s, 0.001)  # a window is kept by those who keep turns
        concurrency = self.concurrency or config.concurrent_per_host
        if not interval_s and self.concurrency is None:
            concurrency = max(concurrency, OWN_SERVERS_AT_ONCE)
        return Limits(interval_s, concurrency, window_requests, window_s)
