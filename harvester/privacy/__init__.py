"""What people want not to be kept: purges and opt-outs."""

OPT_OUTS = "opt_outs"
"""Collection of the accounts that say no: DID, `declared`, and `known_at` by the clock of MongoDB."""
