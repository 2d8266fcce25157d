"""The platform eSearch: its spider, and the parser of its pages."""
