"""What sites of every kind say of themselves: robots.txt, sitemaps, rate limits, usage of their content."""
