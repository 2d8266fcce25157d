-- Takes the leases of silent workers back, and of those that are known to have ended. Returns how many, whether more are
-- left, and whether keys are missing. ARGV: the worker that asks, lease timeout in ms, most deliveries, how many at most,
-- and the names of workers that have ended, packed.

local JOB_KEPT = 30 * 24 * 3600 * 1000 -- after the last change of a job in which nothing is left, dead letters neither
local MOST_SHARDS = 200

-- Its counts, and what it has seen: some of it at a time. Those of the whole frontier stay.
local function forget_job(job)
    local left = 0
    for _, number in ipairs(redis.call('HMGET', P .. 'job:' .. job, 'ready', 'parked', 'waiting', 'leased', 'dead')) do
        left = left + (number or 0)
    end
    if left > 0 then
        redis.call('ZADD', P .. 'touched', now, job)
        return
    end
    local _, more = forget_shards(scope_of(job), MOST_SHARDS)
    if not more then
        scopes[job] = nil
        items.forget_job(job)
        items.settle()
        by_job[job] = nil
        redis.call('UNLINK', P .. 'job:' .. job)
        redis.call('SREM', P .. 'scopes', job)
        redis.call('ZREM', P .. 'touched', job)
    end
end

-- What blocks a silent worker, if its watchdog said so until now. One that fell silent too has ended.
local function blocked_by(worker, timeout)
    local packed = redis.call('HGET', P .. 'blocked', worker)
    if packed then
        local id, what, at = unpack(cmsgpack.unpack(packed))
        if now - at <= timeout / 2 then
            local lease = string.format('%g s', timeout / 1000)
            return { id, what .. ' blocked for longer than its lease (' .. lease .. '), in worker ' .. worker }
        end
    end
end

local asking, timeout, max_deliveries, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local ended, has_ended = cmsgpack.unpack(ARGV[5]), {}
local is_steady = steady(timeout)
if not is_steady and #ended == 0 then
    return { 0, 0, is_damaged() and 1 or 0 }
end
local silent = is_steady and redis.call('ZRANGEBYSCORE', P .. 'workers', '-inf', now - timeout) or {}
for _, worker in ipairs(ended) do
    silent[#silent + 1], has_ended[worker] = worker, true
end
if #ended > 0 then -- of what they were told they have maybe written nothing: others are told it now
    redis.call('ZUNIONSTORE', P .. 'ended', 1, P .. 'ended', 'WEIGHTS', 0)
end
local taken = 0
for _, worker in ipairs(silent) do
    if worker ~= asking and taken < most then
        local ids = redis.call('ZRANGE', P .. 'leases:' .. worker, 0, most - taken - 1)
        local blocked = not has_ended[worker] and blocked_by(worker, timeout) or nil
        preload(ids)
        for _, id in ipairs(ids) do
            redeliver(worker, id, max_deliveries, blocked)
        end
        taken = taken + #ids
        flush()
        if redis.call('EXISTS', P .. 'leases:' .. worker) == 0 then
            redis.call('ZREM', P .. 'workers', worker)
            redis.call('HDEL', P .. 'reported', worker)
            redis.call('HDEL', P .. 'blocked', worker)
        end
    end
end
for _, job in ipairs(redis.call('ZRANGEBYSCORE', P .. 'touched', '-inf', now - JOB_KEPT, 'LIMIT', 0, 1)) do
    forget_job(job)
end
items.forget_over()
finish()
redis.call('ZREMRANGEBYSCORE', P .. 'answered', '-inf', (now - ANSWERED) * 1000)
return { taken, taken == most and 1 or 0, is_damaged() and 1 or 0 }
