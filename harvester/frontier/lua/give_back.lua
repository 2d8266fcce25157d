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
local given = 0
for _, id in ipairs(redis.call('ZRANGE', P .. 'leases:' .. worker, 0, -1)) do
    if not known[id] and given < most then
        give_back(worker, id)
        given = given + 1
    end
end
if leaves and given < most then
    redis.call('ZREM', P .. 'workers', worker)
end
write_counts()
return { given, given == most and 1 or 0 }
