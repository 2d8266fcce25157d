-- What was lost is not waited for any more: the job is begun anew.

local names = { P .. 'counts' }
for _, job in ipairs(redis.call('SMEMBERS', P .. 'scopes')) do
    names[#names + 1] = P .. 'job:' .. job
end
for _, name in ipairs(names) do
    local lost = tonumber(redis.call('HGET', name, 'lost') or 0)
    if lost > 0 then
        redis.call('HINCRBY', name, 'queued', -lost)
        redis.call('HDEL', name, 'lost')
    end
end
