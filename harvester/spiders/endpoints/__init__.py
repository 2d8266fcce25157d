"""JSON APIs that are visited repeatedly: the definition of an endpoint, and the spider."""
