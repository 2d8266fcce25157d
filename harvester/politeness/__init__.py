"""How fast a site is asked: slots, permits and pauses shared by all workers, robots.txt, and what it says of usage."""
