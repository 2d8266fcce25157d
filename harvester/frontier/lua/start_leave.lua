-- Puts back what a worker has taken of the start list and not confirmed. ARGV: worker, key and kind of the list.

put_back(ARGV[1], ARGV[2], ARGV[3])
