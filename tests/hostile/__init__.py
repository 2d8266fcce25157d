"""A site that harms whoever reads it without care: one behaviour a host, and what comes of each."""
