"""The platform iasWorld: its spider, and the parser of its pages."""
