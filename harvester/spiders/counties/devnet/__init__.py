"""The platform DEVNET: its spider, and the parser of its pages."""
