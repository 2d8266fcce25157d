-- Leaves to others what a worker has taken of the start list and not confirmed. ARGV: worker, key and kind of the list.

if redis.call('EXISTS', filed_by(ARGV[1])) == 1 then -- whoever takes it has to know what was filed where
    redis.call('ZADD', WORKERS, 0, ARGV[1])
else
    put_back(ARGV[1], ARGV[2], ARGV[3])
end
