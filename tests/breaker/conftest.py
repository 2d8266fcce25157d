"""Frontiers of a test's own, in a real Valkey."""

from tests.frontier.conftest import frontier, redis

__all__ = ["frontier", "redis"]
