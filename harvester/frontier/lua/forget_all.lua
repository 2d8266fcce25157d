-- Forgets the last shards of a job: what they held maps to the shards below, which do not know it.
-- ARGV: job, how many shards at most. Returns how many fingerprints, and whether shards are left.

local scope, most = scope_of(ARGV[1]), tonumber(ARGV[2])
local forgotten, left = 0, true
while most > 0 do
    most = most - 1
    local key = scope.key .. (scope.size + scope.split - 1)
    forgotten = forgotten + redis.call('SCARD', key)
    redis.call('UNLINK', key)
    if scope.size == 1 and scope.split == 0 then
        left = false
        break
    end
    if scope.split == 0 then
        scope.size = scope.size / 2
        scope.split = scope.size
    end
    scope.split = scope.split - 1
end
scope.seen = left and math.max(0, scope.seen - forgotten) or 0
scope.changed = true
finish()
return { forgotten, left and 1 or 0 }
