-- The whole frontier at one moment, and whether what is counted is what is there. Returns msgpack.

local function hash(key)
    local flat, result = redis.call('HGETALL', key), {}
    for i = 1, #flat, 2 do
        result[flat[i]] = tonumber(flat[i + 1])
    end
    return result
end

local SAMPLES = 20 -- shards of fingerprints that are weighed for all
local memory = 0
local function weigh(key, times)
    local size = redis.pcall('MEMORY', 'USAGE', key)
    memory = memory + (type(size) == 'number' and size * (times or 1) or 0)
end

local sites, ready, parked = {}, 0, 0
local function site_of(line)
    local name = string.sub(line, 1, 1) == SUSPECTS and string.sub(line, 2) or line
    sites[name] = sites[name] or { ready = 0, parked = 0, leased = 0 }
    return sites[name]
end
for _, each in ipairs(parked_lines()) do
    local number = redis.call('ZCARD', P .. 'ready:' .. each.key)
    weigh(P .. 'ready:' .. each.key)
    local site = site_of(each.line)
    site.parked = site.parked + number
    parked = parked + number
end
for _, job in ipairs(redis.call('ZRANGE', P .. 'jobs', 0, -1)) do
    for _, name in ipairs(redis.call('ZRANGE', P .. 'sites:' .. job, 0, -1)) do
        local key = P .. 'ready:' .. job .. '\0' .. name
        local number = redis.call('ZCARD', key)
        weigh(key)
        if number > 0 then
            local site = site_of(name)
            site.ready = site.ready + number
            ready = ready + number
        end
    end
end

local workers, leased = {}, 0
local beats = redis.call('ZRANGE', P .. 'workers', 0, -1, 'WITHSCORES')
for i = 1, #beats, 2 do
    local worker = beats[i]
    local number = redis.call('ZCARD', P .. 'leases:' .. worker)
    local oldest = redis.call('ZRANGE', P .. 'leases:' .. worker, 0, 0, 'WITHSCORES')
    workers[worker] = { number, oldest[2] and math.max(0, now - oldest[2] / 1000) or 0, now - beats[i + 1] }
    leased = leased + number
    for name, of_site in pairs(hash(P .. 'held:' .. worker)) do
        local site = site_of(name)
        site.leased = site.leased + of_site
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
local breakers = {}
for name in pairs(load_shut()) do
    breakers[name] = cmsgpack.unpack(redis.call('HGET', P .. 'breakers', name))
end
local next_due = redis.call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')
return cmsgpack.pack({
    hash(P .. 'counts'),
    workers,
    jobs,
    sites,
    breakers,
    { ready, parked, waiting, leased, dead, redis.call('HLEN', P .. 'entries'), redis.call('HLEN', P .. 'payloads') },
    tonumber(next_due[2] or 0),
    seen,
    math.floor(memory),
})
