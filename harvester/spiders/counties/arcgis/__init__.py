"""The platform ArcGIS: its spider, and the parser of its pages."""
