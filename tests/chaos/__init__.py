"""A crawl whose workers and servers are killed again and again: nothing is lost, and little is done twice."""
