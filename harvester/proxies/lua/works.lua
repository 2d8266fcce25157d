-- Remembers which tier a site answers, if the worker that tells of it knows what all know.
-- KEYS[1]: what all workers know of the site's proxies.
-- ARGV: the tier that works as the worker knows it, the one that does, seconds for which it is remembered.
-- Answer: the tier that works.
local key = KEYS[1]
if (redis.call("HGET", key, "works") or "") == ARGV[1] then
    redis.call("HSET", key, "works", ARGV[2], "again_at", tonumber(redis.call("TIME")[1]) + ARGV[3])
end
return redis.call("HGET", key, "works") or ""
