-- Takes the leases of silent workers back. Returns how many, whether more are left, and whether keys are missing.
-- ARGV: the worker that asks, lease timeout in ms, most deliveries, how many at most.

local asking, timeout, max_deliveries, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if not steady(timeout) then
    return { 0, 0, is_damaged() and 1 or 0 }
end
local taken = 0
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', P .. 'workers', '-inf', now - timeout)) do
    if worker ~= asking and taken < most then
        local ids = redis.call('ZRANGE', P .. 'leases:' .. worker, 0, most - taken - 1)
        preload(ids)
        for _, id in ipairs(ids) do
            redeliver(worker, id, max_deliveries)
        end
        taken = taken + #ids
        flush()
        if redis.call('EXISTS', P .. 'leases:' .. worker) == 0 then
            redis.call('ZREM', P .. 'workers', worker)
            redis.call('HDEL', P .. 'reported', worker)
        end
    end
end
finish()
redis.call('ZREMRANGEBYSCORE', P .. 'answered', '-inf', (now - ANSWERED) * 1000)
return { taken, taken == most and 1 or 0, is_damaged() and 1 or 0 }
