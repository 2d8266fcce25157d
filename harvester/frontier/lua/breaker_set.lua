-- Applies decisions about breakers. ARGV: {name, version, rules, decision (see `change`)} each (msgpack). One is applied if
-- the breaker is of that version still: a decision that another came before is to be made anew.
-- Returns (msgpack) the time, how many are ready, waiting, leased and parked, and of each breaker what it is now and the
-- event if it was changed. Who asked tells people of it.

local answers = {}
seq = tonumber(redis.call('HGET', P .. 'counts', 'seq') or 0)
for i, row in ipairs(cmsgpack.unpack(ARGV[1])) do
    local name, version, rules, decision = unpack(row)
    local b = found_or_made(name, rules)
    local event = b.version == version and change(name, b, decision) or nil
    if event then
        redis.call('ZADD', P .. 'untold', now, event.id)
    end
    answers[i] = { name, event }
end
raise_opened()
save_breakers()
redis.call('HSET', P .. 'counts', 'seq', seq)
finish()
for i, answer in ipairs(answers) do
    local row = shown(answer[1])
    row[4] = answer[2]
    answers[i] = row
end
return cmsgpack.pack({ now, redis.call('HMGET', P .. 'counts', 'ready', 'waiting', 'leased', 'parked'), answers })
