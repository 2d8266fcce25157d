"""When a site is left alone because its answers are bad."""

from typing import Self

from pydantic import Field, model_validator

from harvester.sites.part import Part


class SiteBreaker(Part):
    """The table `[<site>.breaker]`. What counts as a failure is said by the policy of its outcome."""

    enabled: bool = True
    """Whether the breaker opens by itself."""
    window_seconds: float = Field(300.0, ge=1)
    """The time over which tries are counted."""
    least_tries: int = Field(50, ge=1)
    """Fewer tries in the window say nothing."""
    failure_ratio: float = Field(0.5, gt=0, le=1)
    """The share of tries in the window that may fail."""
    refusals_in_a_row: int = Field(20, ge=1)
    """So many blocked or challenged tries, with none in between that went well, open it at once."""
    failures_in_a_row: int = Field(50, ge=1)
    """So many requests do, too, whose first tries failed in whatever way."""
    most_misread: int = Field(10, ge=1)
    """So many pages that are not as they should be (layout_changed), each at its first try, do, too. Four that are read
    make good one that was not."""
    open_seconds: float = Field(60.0, gt=0)
    """How long the site is left alone before probes; doubled each time that one of them fails."""
    most_open_seconds: float = Field(3600.0, gt=0)
    """The longest that becomes."""
    probes: int = Field(3, ge=1, le=20)
    """Requests that must go well before the site is asked again."""
    sample: int = Field(50, ge=0)
    """Pages, and records of a kind, that are compared with those before. 0: a site that has changed is not noticed."""

    @model_validator(mode="after")
    def _opens_for_so_long(self) -> Self:
        if self.open_seconds > self.most_open_seconds:
            raise ValueError(
                f"open_seconds ({self.open_seconds:g}) is more than most_open_seconds ({self.most_open_seconds:g}):"
                " raise that, too"
            )
        return self

    def rules(self) -> list[float]:
        """As breaker.lua takes them; times in milliseconds."""
        on = int(self.enabled)
        rows = [on * self.least_tries, self.failure_ratio, on * self.refusals_in_a_row, on * self.failures_in_a_row]
        times = [round(seconds * 1000) for seconds in (self.open_seconds, self.most_open_seconds)]
        window_ms, misread = round(self.window_seconds * 1000), on * self.most_misread
        return [window_ms, *rows, *times, self.probes, on * self.sample, misread]
