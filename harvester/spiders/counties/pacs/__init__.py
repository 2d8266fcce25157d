"""The platform PACS: its spider, and the parser of its pages."""
