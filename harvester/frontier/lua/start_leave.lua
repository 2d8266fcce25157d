-- Puts back in front of the start list what a worker has taken and not confirmed, and forgets the worker.

local LIST = string.match(P, '{(.*)}')
while redis.call('LMOVE', P .. 'start:taken:' .. ARGV[1], LIST, 'RIGHT', 'LEFT') do end
redis.call('ZREM', P .. 'start:workers', ARGV[1])
