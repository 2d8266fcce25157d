-- Notes where a part of what a worker has taken of the start list is filed. Returns 0 if another has taken it from there.
-- ARGV: worker, part, place.

if redis.call('EXISTS', taken_by(ARGV[1])) == 0 then
    return 0
end
redis.call('HSET', filed_by(ARGV[1]), ARGV[2], ARGV[3])
return 1
