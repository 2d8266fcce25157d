"""The demonstration: a harvest of the sandbox with everything on, and what can be done with it."""
