"""Property records: what is read of them, and crawls of made-up counties."""
