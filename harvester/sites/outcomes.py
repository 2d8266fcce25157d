"""The meaning of a site's responses, where it differs from the common rules."""

from collections.abc import Mapping
from functools import cached_property

from pydantic import Field

from harvester.outcomes.outcome import Outcome
from harvester.outcomes.policies import POLICIES, Policy
from harvester.outcomes.rules import OwnRule, RuleBook, SiteRules
from harvester.sites.part import Part


class PolicyChange(Part):
    """The table `[<site>.outcomes.policies.<outcome>]`: each given key replaces the field of the common policy."""

    retries: int | None = Field(None, ge=0, le=1000)
    backoff_s: float | None = Field(None, ge=0)
    most_backoff_s: float | None = Field(None, ge=0)
    retryable: bool | None = None
    error: bool | None = None
    site: bool | None = None
    breaker: bool | None = None
    session: bool | None = None
    proxy: bool | None = None
    new_identity: bool | None = None
    escalate: bool | None = None
    dead: bool | None = None


class SiteOutcomes(Part):
    """The table `[<site>.outcomes]`."""

    policies: Mapping[Outcome, PolicyChange] = {}
    rules: tuple[OwnRule, ...] = ()
    """`[[<site>.outcomes.rules]]`, tried in order before the common ones (outcomes/rules.toml)."""
    page_ending: str = Field("", max_length=100)
    """The end of every complete HTML page of the site, such as `</html>`. A page without it was cut short."""

    @cached_property
    def policy_table(self) -> Mapping[Outcome, Policy]:
        """The common table with the site's changes."""
        if not self.policies:
            return POLICIES
        changes = {outcome: change.model_dump(exclude_none=True) for outcome, change in self.policies.items()}
        return {outcome: policy._replace(**changes.get(outcome, {})) for outcome, policy in POLICIES.items()}

    @cached_property
    def own(self) -> SiteRules:
        """The rules that the classifier tries first."""
        return SiteRules(RuleBook(self.rules) if self.rules else None, self.page_ending)
