"""The settings of a site's breaker."""

from typing import Self

from pydantic import Field, model_validator

from harvester.sites.part import Part


class SiteBreaker(Part):
    """The table `[<site>.breaker]`. The policy of an outcome decides whether it counts as a failure."""

    enabled: bool = True
    """False if only a person may open the breaker."""
    window_seconds: float = Field(300.0, ge=1)
    """Seconds of the window for counting tries."""
    least_tries: int = Field(50, ge=1)
    """Minimum number of tries in the window to judge them."""
    failure_ratio: float = Field(0.5, gt=0, le=1)
    """Share of failed tries in the window that opens the breaker."""
    refusals_in_a_row: int = Field(20, ge=1)
    """Number of blocked or challenged tries, without a good one in between, that open it at once."""
    failures_in_a_row: int = Field(50, ge=1)
    """Number of requests with a failed first try, in a row, that open it too."""
    most_misread: int = Field(10, ge=1)
    """Number of pages with a wrong layout (layout_changed), each at its first try, that open it too. Four correct pages
    make good one wrong page."""
    open_seconds: float = Field(60.0, gt=0)
    """Seconds before the first probes; doubled each time that a probe fails."""
    most_open_seconds: float = Field(3600.0, gt=0)
    """Maximum seconds before probes."""
    probes: int = Field(3, ge=1, le=20)
    """Number of good probes that close the breaker."""
    sample: int = Field(50, ge=0)
    """Pages, and records of a kind, in a sample that is compared with earlier ones. 0 compares nothing."""

    @model_validator(mode="after")
    def _opens_for_so_long(self) -> Self:
        if self.open_seconds > self.most_open_seconds:
            raise ValueError(
                f"open_seconds ({self.open_seconds:g}) is more than most_open_seconds ({self.most_open_seconds:g}):"
                " raise that, too"
            )
        return self

    def rules(self) -> list[float]:
        """Returns the rules in the form that breaker.lua takes; times in milliseconds."""
        on = int(self.enabled)
        rows = [on * self.least_tries, self.failure_ratio, on * self.refusals_in_a_row, on * self.failures_in_a_row]
        times = [round(seconds * 1000) for seconds in (self.open_seconds, self.most_open_seconds)]
        window_ms, misread = round(self.window_seconds * 1000), on * self.most_misread
        return [window_ms, *rows, *times, self.probes, on * self.sample, misread]
