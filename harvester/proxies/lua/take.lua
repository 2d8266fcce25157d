-- Takes what a request will probably cost from the day's budget. A worker has chosen its tier (policy.py); that holds if the
-- worker knows what all know.
-- KEYS[1]: what all workers know of the site's proxies.
-- ARGV: as the worker knows it, the tier that works and whether it is time to try a cheaper one (1); requests, bytes, usd
-- (the budget; -1: no limit); bytes of a request of which nothing is known yet; usd a request (-1: it costs nothing and is
-- not counted), usd a byte; if it tries a cheaper tier, seconds until that is done again, else 0.
-- Answer: "stale", the tier that works, and whether it is time; or "spent", what is, whether some of that is for requests
-- under way, and seconds to the end of the day; or "taken", bytes, and the day.
local UNDER_WAY = 300 -- seconds after which a request that took something is under way no more: its worker died
local key = KEYS[1]
local time = tonumber(redis.call("TIME")[1])
local day = math.floor(time / 86400)
local known = {}
local flat = redis.call("HGETALL", key)
for at = 1, #flat, 2 do known[flat[at]] = flat[at + 1] end
if known.day and tonumber(known.day) > day then
    day = tonumber(known.day) -- the clock was set back: a day has one budget
end
if tonumber(known.day) ~= day then
    redis.call("HDEL", key, "requests", "bytes", "usd", "measured", "samples", "under_way")
    redis.call("HSET", key, "day", day)
    redis.call("EXPIRE", key, 40 * 86400)
    for _, name in ipairs({ "requests", "bytes", "usd", "measured", "samples", "under_way" }) do known[name] = nil end
end

local works = known.works or ""
local is_time = time >= tonumber(known.again_at or math.huge) and 1 or 0
if works ~= ARGV[1] or is_time ~= tonumber(ARGV[2]) then
    return { "stale", works, is_time }
end
local a_request, a_byte = tonumber(ARGV[7]), tonumber(ARGV[8])
local function probing()
    if ARGV[9] ~= "0" then redis.call("HSET", key, "again_at", time + ARGV[9]) end
end

if a_request < 0 then
    probing()
    return { "taken", 0, day }
end
local requests, bytes, usd = tonumber(known.requests or 0), tonumber(known.bytes or 0), tonumber(known.usd or 0)
local samples = tonumber(known.samples or 0)
local size = samples > 0 and math.ceil(tonumber(known.measured) / samples) or tonumber(ARGV[6])
local price = a_request + a_byte * size
local most = { tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]) }
local spent = ""
if most[1] >= 0 and requests + 1 > most[1] then spent = "requests" end
if most[2] >= 0 and bytes + size > most[2] then spent = "megabytes" end
if most[3] >= 0 and usd + price > most[3] + 1e-9 then spent = "usd" end
if spent ~= "" then
    local under_way = tonumber(known.under_way or 0) > 0 and math.abs(time - tonumber(known.taken_at)) < UNDER_WAY
    return { "spent", spent, under_way and 1 or 0, (day + 1) * 86400 - time }
end
probing()
redis.call("HINCRBY", key, "under_way", 1)
redis.call("HSET", key, "taken_at", time)
redis.call("HINCRBY", key, "requests", 1)
redis.call("HINCRBY", key, "bytes", size)
redis.call("HINCRBYFLOAT", key, "usd", string.format("%.9f", price))
return { "taken", size, day }
