-- Forgets the last shards of a job. ARGV: job, how many shards at most. Returns how many fingerprints, and whether shards
-- are left.

local forgotten, left = forget_shards(scope_of(ARGV[1]), tonumber(ARGV[2]))
finish()
return { forgotten, left and 1 or 0 }
