"""Where things are kept: MongoDB, Redis, folders and buckets, and the private servers for those who configure none."""
