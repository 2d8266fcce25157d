-- Chooses the tier of a request and takes what it will probably cost from the day's budget.
-- KEYS[1]: what all workers know of the site's proxies.
-- ARGV: least tier; then requests, bytes, usd (the budget; -1: no limit); bytes of a request of which nothing is known
-- yet; seconds until a cheaper tier is tried again; then of each tier: name, usd a request, usd a byte (-1: it costs nothing and is not counted).
-- Answer: index of the tier (from 0; -1: the budget is spent), whether it is a probe, bytes taken, the day, seconds to
-- its end, and what is spent.
local key = KEYS[1]
local time = tonumber(redis.call("TIME")[1])
local day = math.floor(time / 86400)
local known = {}
local flat = redis.call("HGETALL", key)
for at = 1, #flat, 2 do known[flat[at]] = flat[at + 1] end
if tonumber(known.day) ~= day then
    redis.call("HDEL", key, "requests", "bytes", "usd", "measured", "samples")
    redis.call("HSET", key, "day", day)
    redis.call("EXPIRE", key, 40 * 86400)
    known.requests, known.bytes, known.usd, known.measured, known.samples = nil, nil, nil, nil, nil
end

local least = tonumber(ARGV[1])
local tiers = {}
for at = 7, #ARGV, 3 do
    tiers[#tiers + 1] = { name = ARGV[at], a_request = tonumber(ARGV[at + 1]), a_byte = tonumber(ARGV[at + 2]) }
end
local works = 0
for at = 1, #tiers do
    if tiers[at].name == known.works then works = at - 1 end
end
local index, probe = math.max(least, works), 0
if index > 0 and index == works and least < works and time >= tonumber(known.again_at or 0) then
    index, probe = works - 1, 1
    redis.call("HSET", key, "again_at", time + tonumber(ARGV[6]))
end

local left = (day + 1) * 86400 - time
local tier = tiers[index + 1]
if tier.a_request < 0 then
    return { index, probe, 0, day, left, "" }
end
local requests, bytes, usd = tonumber(known.requests or 0), tonumber(known.bytes or 0), tonumber(known.usd or 0)
local samples = tonumber(known.samples or 0)
local size = samples > 0 and math.ceil(tonumber(known.measured) / samples) or tonumber(ARGV[5])
local price = tier.a_request + tier.a_byte * size
local most = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
local spent = ""
if most[1] >= 0 and requests + 1 > most[1] then spent = "requests" end
if most[2] >= 0 and bytes + size > most[2] then spent = "megabytes" end
if most[3] >= 0 and usd + price > most[3] + 1e-9 then spent = "usd" end
if spent ~= "" then
    return { -1, probe, 0, day, left, spent }
end
redis.call("HINCRBY", key, "requests", 1)
redis.call("HINCRBY", key, "bytes", size)
redis.call("HINCRBYFLOAT", key, "usd", string.format("%.9f", price))
return { index, probe, size, day, left, "" }
