"""The demonstrations: a harvest of a sandbox with everything on, and what can be done with it."""
