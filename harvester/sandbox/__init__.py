"""A local website with the Bluesky API over a generated network, for trials and tests.

It imports no other room, and only the command `harvester sandbox` imports it.
"""
