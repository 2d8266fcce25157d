"""The base of what a site's entry is made of."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A table of a site's entry. A key that it does not know is refused, and so is inf, which TOML has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
