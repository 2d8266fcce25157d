"""JSON APIs that are looked at again and again: what is declared of each, and the spider."""
