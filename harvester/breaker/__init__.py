"""The breaker: a site whose answers are bad is left alone, its requests are parked, and people hear of it."""
