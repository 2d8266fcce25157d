-- The whole frontier at one moment, and whether what is counted is what is there. Returns msgpack.

local function hash(key)
    local flat, result = redis.call('HGETALL', key), {}
    for i = 1, #flat, 2 do
        result[flat[i]] = tonumber(flat[i + 1]) -- none of the epoch
    end
    return result
end

local SAMPLES = 20 -- of many keys of a kind, that are weighed for all
local memory = 0
local function weigh(key, times)
    local size = redis.pcall('MEMORY', 'USAGE', key)
    memory = memory + (type(size) == 'number' and size * (times or 1) or 0)
end

-- Of each line its site and how many are in it, one after the other: there may be very many.
local lines, ready_lines, parked_lines, held_lines = {}, {}, {}, {}
local function count_line(key, line, counts)
    local number = redis.call('ZCARD', key)
    lines[#lines + 1] = key
    counts[#counts + 1] = line
    counts[#counts + 1] = number
    return number
end
local ready, parked = 0, 0
for _, key in ipairs(redis.call('SMEMBERS', P .. 'parked')) do
    local _, line = job_and_line(key)
    parked = parked + count_line(P .. 'ready:' .. key, line, parked_lines)
end
for _, job in ipairs(redis.call('ZRANGE', P .. 'jobs', 0, -1)) do
    for _, line in ipairs(redis.call('ZRANGE', P .. 'sites:' .. job, 0, -1)) do
        ready = ready + count_line(P .. 'ready:' .. job .. '\0' .. line, line, ready_lines)
    end
end

local weighed = math.min(#lines, SAMPLES)
for i = 1, weighed do
    weigh(lines[math.ceil(i * #lines / weighed)], #lines / weighed)
end

local workers, leased = {}, 0
local beats = redis.call('ZRANGE', P .. 'workers', 0, -1, 'WITHSCORES')
for i = 1, #beats, 2 do
    local worker = beats[i]
    local number = redis.call('ZCARD', P .. 'leases:' .. worker)
    local oldest = redis.call('ZRANGE', P .. 'leases:' .. worker, 0, 0, 'WITHSCORES')
    workers[worker] = { number, oldest[2] and math.max(0, now - oldest[2] / 1000) or 0, now - beats[i + 1] }
    leased = leased + number
    for line, of_line in pairs(hash(P .. 'held:' .. worker)) do
        held_lines[#held_lines + 1] = line
        held_lines[#held_lines + 1] = of_line
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
        weigh(scope.key .. math.floor(i * shards / samples), shards / samples)
    end
end
for _, name in ipairs({ 'entries', 'payloads', 'waiting', 'dead', 'skipped', 'breakers' }) do
    weigh(P .. name)
end
local waiting, dead = redis.call('ZCARD', P .. 'waiting'), redis.call('ZCARD', P .. 'dead')
local next_due = redis.call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')
return cmsgpack.pack({
    hash(P .. 'counts'),
    workers,
    jobs,
    { ready_lines, parked_lines, held_lines },
    { ready, parked, waiting, leased, dead, redis.call('HLEN', P .. 'entries'), redis.call('HLEN', P .. 'payloads') },
    math.max(0, tonumber(next_due[2] or 0) - offset),
    seen,
    math.floor(memory),
})
