-- People know of a change of a breaker. ARGV: the id of its event.

redis.call('HDEL', P .. 'alerts', ARGV[1])
redis.call('ZREM', P .. 'untold', ARGV[1])
