"""The platform VGSI: its spider, and the parser of its pages."""
