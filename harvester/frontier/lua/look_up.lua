-- Where a request is. ARGV: id, job, fingerprint, its low 32 bits.
-- Returns {state, since or until in ms, worker, entry or what is known of the skipped, the site's breaker if it is
-- parked (msgpack)}; nothing when unknown.

local id, job, fingerprint, number = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local packed = redis.call('HGET', P .. 'entries', id)
if not packed then -- perhaps another was redirected to it
    local owner = redis.call('HGET', P .. 'targets', id)
    packed = owner and redis.call('HGET', P .. 'entries', owner)
    id = packed and owner or id
end
if packed then
    local entry = cmsgpack.unpack(packed)
    for _, set in ipairs({ 'dead', 'waiting' }) do
        local time = redis.call('ZSCORE', P .. set, id)
        if time then
            return { set, set == 'waiting' and string.format('%.0f', time - offset) or time, '', packed }
        end
    end
    for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', 0, -1)) do
        local lease = redis.call('ZSCORE', P .. 'leases:' .. worker, id)
        if lease then
            return { 'leased', string.format('%.0f', lease / 1000), worker, packed }
        end
    end
    if is_shut(entry[SITE]) then
        local breaker = redis.call('HGET', P .. 'breakers', entry[SITE]) or ''
        return { 'parked', '0', '', packed, breaker }
    end
    local history = entry[HISTORY]
    local since = history and history[#history][1] or entry[QUEUED]
    return { 'ready', string.format('%.0f', since), '', packed }
end
local skipped = redis.call('HGET', P .. 'skipped', id)
if skipped then
    return { 'skipped', '0', '', skipped }
end
if redis.call('SISMEMBER', shard_of(scope_of(job), number), fingerprint) == 1 then
    return { 'done', '0', '', '' }
end
return {}
