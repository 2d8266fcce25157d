"""The request rate by site: slots, permits and pauses that all workers share, robots.txt, and usage files."""
