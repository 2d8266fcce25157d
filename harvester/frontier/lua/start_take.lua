-- Takes entries of the start list for a worker, which confirms them or loses them by its silence.
-- ARGV: worker, the most to take, lease in ms. Returns {entries, how many others have taken}.

local LIST = string.match(P, '{(.*)}')
local WORKERS = P .. 'start:workers'
local worker, most, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local function taken_by(name)
    return P .. 'start:taken:' .. name
end

keep_time()
redis.call('ZADD', WORKERS, now, worker)
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', now - lease)) do
    while redis.call('LMOVE', taken_by(silent), LIST, 'RIGHT', 'LEFT') do end
    redis.call('ZREM', WORKERS, silent)
end

local entries = redis.call('LRANGE', taken_by(worker), 0, -1) -- whose answer was lost
if #entries == 0 then
    entries = redis.call('LPOP', LIST, most) or {}
    in_chunks('RPUSH', taken_by(worker), entries)
end

local elsewhere = 0
for _, name in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    if name ~= worker then
        elsewhere = elsewhere + redis.call('LLEN', taken_by(name))
    end
end
return { entries, elsewhere }
