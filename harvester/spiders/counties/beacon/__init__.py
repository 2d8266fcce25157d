"""The platform Beacon and qPublic: its spider, and the parser of its pages."""
