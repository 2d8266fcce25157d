"""Reads property records: pure functions, bytes in, records out. `table` is shared by platforms with rows."""
