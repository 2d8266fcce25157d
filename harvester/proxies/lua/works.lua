-- Remembers which tier a site answers.
-- KEYS[1]: what all workers know of the site's proxies.
-- ARGV: the tier that did, whether it was a probe of a cheaper one, seconds for which it is remembered; then all tiers.
local key = KEYS[1]
local order = {}
for at = 4, #ARGV do order[ARGV[at]] = at end
local known = order[redis.call("HGET", key, "works") or ""] or 4
local told = order[ARGV[1]]
if told and (told > known or (ARGV[2] == "1" and told < known)) then
    redis.call("HSET", key, "works", ARGV[1], "again_at", tonumber(redis.call("TIME")[1]) + tonumber(ARGV[3]))
    return 1
end
return 0
