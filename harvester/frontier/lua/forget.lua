-- Forgets fingerprints. ARGV: job, {id, fingerprint, low 32 bits} of each (msgpack). Returns how many were known.

local scope = scope_of(ARGV[1])
local forgotten = 0
for _, each in ipairs(cmsgpack.unpack(ARGV[2])) do
    local id, fingerprint, number = unpack(each)
    redis.call('HDEL', P .. 'skipped', id)
    forgotten = forgotten + redis.call('SREM', shard_of(scope, number), fingerprint)
end
if forgotten > 0 then
    scope.seen = scope.seen - forgotten
    scope.changed = true
    finish()
end
return forgotten
