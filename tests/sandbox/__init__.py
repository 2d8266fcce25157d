"""A local website which speaks the Bluesky API over a generated network, for tests, demos and benchmarks."""
