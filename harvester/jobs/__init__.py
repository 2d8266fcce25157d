"""Jobs: items in MongoDB, with a state and a reason for each, and the feeder that brings them to workers."""
