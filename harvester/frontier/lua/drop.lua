-- Removes all requests of a spider, and the workers' claims on them. Fingerprints stay: they are many, see forget_all.
-- Returns how many requests were in it.

local held = redis.call('HLEN', P .. 'entries')
for _, job in ipairs(redis.call('ZRANGE', P .. 'jobs', 0, -1)) do
    for _, site in ipairs(redis.call('ZRANGE', P .. 'sites:' .. job, 0, -1)) do
        redis.call('UNLINK', P .. 'ready:' .. job .. '\0' .. site)
    end
    redis.call('UNLINK', P .. 'sites:' .. job)
end
for _, parked in ipairs(parked_lines()) do
    redis.call('UNLINK', P .. 'ready:' .. parked.key, P .. 'parked:' .. site_of_line(parked.line))
end
for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', 0, -1)) do
    redis.call('UNLINK', P .. 'leases:' .. worker, P .. 'held:' .. worker)
end
for _, job in ipairs(redis.call('SMEMBERS', P .. 'scopes')) do
    redis.call('HDEL', P .. 'job:' .. job, 'queued', 'ready', 'parked', 'waiting', 'leased', 'done', 'skipped', 'dead', 'lost')
end
local others = {
    'entries', 'payloads', 'waiting', 'dead', 'skipped', 'skipped:order', 'jobs', 'workers', 'counts', 'parked', 'targets',
    'follows', 'blocked',
}
for _, name in ipairs(others) do
    redis.call('UNLINK', P .. name)
end
return held
