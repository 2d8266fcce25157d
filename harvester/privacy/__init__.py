"""What people want not to be kept: purges and opt-outs."""
