-- Notes that what handles a request blocks its worker now. ARGV: worker, id of the request, what blocks.
-- Only of a request that it holds: others are excused for this one.

if redis.call('ZSCORE', P .. 'leases:' .. ARGV[1], ARGV[2]) then
    redis.call('HSET', P .. 'blocked', ARGV[1], cmsgpack.pack({ ARGV[2], ARGV[3], now }))
end
return 1
