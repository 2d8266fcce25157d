-- Puts what a request really cost in the place of what was taken for it.
-- KEYS[1]: what all workers know of the site's proxies.
-- ARGV: the day on which it was taken, bytes taken, bytes received (-1: it was never sent), usd a request, usd a byte.
local key = KEYS[1]
if redis.call("HGET", key, "day") ~= ARGV[1] then
    return 0
end
redis.call("HINCRBY", key, "under_way", -1)
local taken, received = tonumber(ARGV[2]), tonumber(ARGV[3])
local a_request, a_byte = tonumber(ARGV[4]), tonumber(ARGV[5])
local usd
if received < 0 then
    redis.call("HINCRBY", key, "requests", -1)
    redis.call("HINCRBY", key, "bytes", -taken)
    usd = -a_request - a_byte * taken
else
    redis.call("HINCRBY", key, "bytes", received - taken)
    redis.call("HINCRBY", key, "measured", received)
    redis.call("HINCRBY", key, "samples", 1)
    usd = a_byte * (received - taken)
end
redis.call("HINCRBYFLOAT", key, "usd", string.format("%.9f", usd))
return 1
