"""The platform EagleWeb: its spider, and the parser of its pages."""
