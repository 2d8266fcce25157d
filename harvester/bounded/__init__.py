"""Calls of functions whose cost nobody knows beforehand, in a process of their own that has bounds of time and memory.

A parser that was given a hostile body holds the event loop, and the memory it takes, for as long as it likes. Here it
is ended from outside: nothing in the process can swallow that, as libraries swallow a MemoryError.
"""
