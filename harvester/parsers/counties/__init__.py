"""Reads property records: pure functions, bytes in, records out. `table` holds the code that all platforms with rows
share."""
