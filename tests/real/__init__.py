"""Real pages of counties, given as a folder, beside what an independent reader finds on them."""
