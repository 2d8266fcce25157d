"""The breaker: when a site is left alone, what becomes of its requests, and who hears of it."""
