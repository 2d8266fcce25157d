-- Applies decisions about breakers. ARGV: {name, version, rules, decision (see `change`)} each (msgpack). One is applied if
-- the breaker is of that version still: a decision that another came before is to be made anew.
-- Returns (msgpack) the time, how many are ready, waiting, leased and parked, the breakers as they are now, and the events
-- of those that were changed. Who asked tells people of them.

local found, events = {}, {}
seq = tonumber(redis.call('HGET', P .. 'counts', 'seq') or 0)
for _, row in ipairs(cmsgpack.unpack(ARGV[1])) do
    local name, version, rules, decision = unpack(row)
    local b = found_or_made(name, rules)
    if b.version == version then
        local event = change(name, b, decision)
        redis.call('ZADD', P .. 'untold', now, event[1])
        events[#events + 1] = event
    end
    found[#found + 1] = name
end
raise_opened()
save_breakers()
redis.call('HSET', P .. 'counts', 'seq', seq)
finish()
for i, name in ipairs(found) do
    found[i] = shown(name)
end
return cmsgpack.pack({ now, redis.call('HMGET', P .. 'counts', 'ready', 'waiting', 'leased', 'parked'), found, events })
