-- A person changes a breaker. ARGV: its name, rules (msgpack), state, who. Returns {requests of the site that are parked
-- then, the event (msgpack) if anything changed}.

local name, rules, to, who = ARGV[1], cmsgpack.unpack(ARGV[2]), ARGV[3], ARGV[4]
keep_indexes()
index_parked()
local b = found_or_made(name, rules)
if b.state ~= to or to == 'open' then
    b.cause, b.said, b.lost = 'person', '', {}
    if to == 'open' then
        open(name, b, 'person', who)
    else
        change(name, b, to, nil, who)
    end
end
save_breakers()
finish()
if #made > 0 then
    redis.call('ZADD', P .. 'untold', now, made[1]) -- who asked for it tells of it
end
return { count_parked(name), #made > 0 and redis.call('HGET', P .. 'events', made[1]) or '' }
