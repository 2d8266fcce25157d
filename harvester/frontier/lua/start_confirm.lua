-- Removes what a worker has taken of the start list; some of it becomes dead letters.
-- ARGV: worker, then the dead letters.

redis.call('DEL', taken_by(ARGV[1]), filed_by(ARGV[1]))
for i = 2, #ARGV do
    redis.call('ZADD', P .. 'start:dead', wall, ARGV[i])
end
