"""Jobs: what was asked for, as items in MongoDB that each have a fate and a reason, and what brings them to workers."""
