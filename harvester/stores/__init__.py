"""Storage: MongoDB, Redis, folders and buckets, and private servers for projects without configured ones."""
