"""How requests go out: HTTP/2 where a site wants it, and names looked up once."""
