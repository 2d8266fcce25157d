"""Bodies that cost much to read: what they cost the process that asks for them, and what others get meanwhile."""
