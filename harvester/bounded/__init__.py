"""Calls functions with unknown cost in a separate process with limits of time and memory.

A parser with a hostile body blocks the event loop, and holds memory, for as long as it likes. Here the call is ended
from outside: nothing inside the process can suppress that, as libraries suppress a MemoryError.
"""
