-- How many workers but this one were heard of within a time. ARGV: the worker, the time in ms.

local since = now - ARGV[2]
local own = redis.call('ZSCORE', P .. 'workers', ARGV[1])
return redis.call('ZCOUNT', P .. 'workers', '(' .. since, '+inf') - (own and tonumber(own) > since and 1 or 0)
