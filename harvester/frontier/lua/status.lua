-- The frontier at one moment, but for its lines (lines.lua) and breakers, of which there may be very many. Returns msgpack.

local function hash(key)
    local flat, result = redis.call('HGETALL', key), {}
    for i = 1, #flat, 2 do
        result[flat[i]] = tonumber(flat[i + 1]) -- none of the epoch
    end
    return result
end

local SAMPLES = 20 -- of many keys of a kind, that are weighed for all
local memory = 0
local workers, leased, held_lines = workers_here(), 0, {}
for worker, of_worker in pairs(workers) do
    leased = leased + of_worker[1]
    for line, of_line in pairs(hash(P .. 'held:' .. worker)) do
        held_lines[#held_lines + 1] = { 'leased', line, of_line }
    end
end

local jobs, seen = {}, 0
for _, job in ipairs(redis.call('SMEMBERS', P .. 'scopes')) do
    jobs[job] = hash(P .. 'job:' .. job)
    seen = seen + (jobs[job].seen or 0)
    local scope = scope_of(job)
    local shards = scope.size + scope.split
    local samples = math.min(shards, SAMPLES)
    for i = 0, samples - 1 do -- evenly: those that were split lately hold half as many
        memory = memory + bytes_of(scope.key .. math.floor(i * shards / samples)) * shards / samples
    end
end
for _, name in ipairs({ 'entries', 'payloads', 'waiting', 'dead', 'skipped', 'breakers', 'items', 'belongs' }) do
    memory = memory + bytes_of(P .. name)
end
local waiting, dead = redis.call('ZCARD', P .. 'waiting'), redis.call('ZCARD', P .. 'dead')
local next_due = redis.call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')
return cmsgpack.pack({
    hash(P .. 'counts'),
    workers,
    jobs,
    held_lines,
    { waiting, leased, dead, redis.call('HLEN', P .. 'entries'), redis.call('HLEN', P .. 'payloads') },
    redis.call('ZCARD', P .. 'ended'),
    math.max(0, tonumber(next_due[2] or 0) - offset),
    seen,
    math.floor(memory),
})
