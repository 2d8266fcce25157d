-- Gives leases of a worker back unspent: all and the worker is forgotten, or those that it does not know of.
-- ARGV: worker, how many at most, ids that it knows of (msgpack; empty: it leaves). Returns how many, and whether
-- more are left.

local worker, most = ARGV[1], tonumber(ARGV[2])
local leaves = ARGV[3] == ''
local known = {}
if not leaves then
    for _, id in ipairs(cmsgpack.unpack(ARGV[3])) do
        known[id] = true
    end
end
local ids = {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'leases:' .. worker, 0, -1)) do
    if not known[id] and #ids < most then
        ids[#ids + 1] = id
    end
end
preload(ids)
for _, id in ipairs(ids) do
    take_back_probe(id, load(id))
    give_back(worker, id)
end
if leaves and #ids < most then
    redis.call('ZREM', P .. 'workers', worker)
    redis.call('HDEL', P .. 'reported', worker)
    redis.call('HDEL', P .. 'blocked', worker)
end
save_breakers()
finish()
return { #ids, #ids == most and 1 or 0 }
