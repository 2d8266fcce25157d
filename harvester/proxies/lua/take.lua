-- Chooses the tier of a request and takes what it will probably cost from the day's budget.
-- KEYS[1]: what all workers know of the site's proxies.
-- ARGV: least tier; then requests, bytes, usd (the budget; -1: no limit); bytes of a request of which nothing is known
-- yet; seconds until a cheaper tier is tried again; then of each tier: name, usd a request (-1: it costs nothing and is
-- not counted), usd a byte, whether it is passed over (1).
-- Answer: index of the tier (from 0; -1: the budget is spent; -2: all tiers are passed over), whether it is a probe,
-- bytes taken (budget spent: index of the tier that cannot be paid), the day, seconds to its end, what is spent, and
-- whether some of that is for requests under way.
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

local least = tonumber(ARGV[1])
local tiers = {}
for at = 7, #ARGV, 4 do
    tiers[#tiers + 1] = {
        name = ARGV[at],
        a_request = tonumber(ARGV[at + 1]),
        a_byte = tonumber(ARGV[at + 2]),
        passed = ARGV[at + 3] == "1",
    }
end
local works = 0
for at = 1, #tiers do
    if tiers[at].name == known.works then works = at - 1 end
end
local index, probe = math.max(least, works), 0
local left = (day + 1) * 86400 - time
-- Of a clock that was set back, not later than it would be from now.
local again_at = math.min(tonumber(known.again_at or 0), time + tonumber(ARGV[6]))
local is_time = index > 0 and index == works and least < works and time >= again_at
if is_time and not tiers[works].passed then
    index, probe = works - 1, 1
elseif tiers[index + 1].passed then
    local other = index + 1
    while other < #tiers and tiers[other + 1].passed do other = other + 1 end
    if other == #tiers then -- no dearer one
        other = index - 1
        while other >= least and tiers[other + 1].passed do other = other - 1 end
    end
    if other < least then
        return { -2, 0, 0, day, left, "", 0 }
    end
    index = other
end

local function probing()
    if probe == 1 then redis.call("HSET", key, "again_at", time + tonumber(ARGV[6])) end
end

local tier = tiers[index + 1]
if tier.a_request < 0 then
    probing()
    return { index, probe, 0, day, left, "", 0 }
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
    local under_way = tonumber(known.under_way or 0) > 0 and math.abs(time - tonumber(known.taken_at)) < UNDER_WAY
    return { -1, probe, index, day, left, spent, under_way and 1 or 0 }
end
probing()
redis.call("HINCRBY", key, "under_way", 1)
redis.call("HSET", key, "taken_at", time)
redis.call("HINCRBY", key, "requests", 1)
redis.call("HINCRBY", key, "bytes", size)
redis.call("HINCRBYFLOAT", key, "usd", string.format("%.9f", price))
return { index, probe, size, day, left, "", 0 }
