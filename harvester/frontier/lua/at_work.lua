-- Who works at the frontier; put in front of the scripts that tell of it, after common.lua.

-- Worker -> how many requests it holds, the age of its oldest lease and for how long it was silent, both in ms.
local function workers_here()
    local beats, found = redis.call('ZRANGE', P .. 'workers', 0, -1, 'WITHSCORES'), {}
    for i = 1, #beats, 2 do
        local leases = P .. 'leases:' .. beats[i]
        local oldest = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')
        local age = oldest[2] and math.max(0, now - oldest[2] / 1000) or 0
        found[beats[i]] = { redis.call('ZCARD', leases), age, now - beats[i + 1] }
    end
    return found
end
