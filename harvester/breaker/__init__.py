"""The circuit breakers of sites: an open breaker parks the requests of a failing site and alerts people."""
