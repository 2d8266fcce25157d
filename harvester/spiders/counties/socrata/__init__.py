"""The platform Socrata: its spider, and the parser of its pages."""
