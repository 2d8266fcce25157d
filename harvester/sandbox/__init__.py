"""A local website that speaks the Bluesky API over a generated network, to try things with, and for tests.

It needs no other room, and none needs it but the command `harvester sandbox`.
"""
