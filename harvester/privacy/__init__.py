"""Removes data of people who do not want it stored: purges and opt-outs."""

OPT_OUTS = "opt_outs"
"""Collection of accounts that opted out: DID, `declared`, and `known_at` by the clock of MongoDB."""
