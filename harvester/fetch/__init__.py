"""Decides whether a request is retried: steps judge the attempt, and the decision follows from their advice."""
