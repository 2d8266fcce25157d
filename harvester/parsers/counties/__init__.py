"""Reads property records: pure functions, bytes in, records out. `table` is what platforms that publish rows share."""
