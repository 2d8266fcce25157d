-- Takes entries of the start list for a worker, which confirms them or loses them by its silence.
-- What a silent worker had comes first, all of it together, with what was noted of where it was filed.
-- ARGV: worker, the most to take, lease in ms, key and kind of the list. Returns {entries, how many others have taken}.

local worker, most, lease, key, kind = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]

local function pop()
    if kind == 'list' then
        return redis.call('LPOP', key, most) or {}
    elseif kind == 'set' then
        return redis.call('SPOP', key, most)
    end
    local entries = {}
    for i, entry in ipairs(redis.call('ZPOPMAX', key, most)) do
        if i % 2 == 1 then -- each is followed by its score
            entries[#entries + 1] = entry
        end
    end
    return entries
end

keep_time()
redis.call('ZADD', WORKERS, now, worker)
local entries = redis.call('LRANGE', taken_by(worker), 0, -1) -- whose answer was lost
if #entries == 0 then
    redis.call('DEL', filed_by(worker))
end
-- After an outage all were silent, which says nothing about them. Those that have left are at 0.
local is_steady = redis.call('HEXISTS', P .. 'counts', 'beat') == 0 or steady(lease)
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', is_steady and now - lease or 0)) do
    if redis.call('EXISTS', taken_by(silent)) == 0 then
        redis.call('ZREM', WORKERS, silent)
    elseif #entries == 0 then
        redis.call('RENAME', taken_by(silent), taken_by(worker))
        if redis.call('EXISTS', filed_by(silent)) == 1 then
            redis.call('RENAME', filed_by(silent), filed_by(worker))
        end
        redis.call('ZREM', WORKERS, silent)
        entries = redis.call('LRANGE', taken_by(worker), 0, -1)
    end
end
if #entries == 0 then
    entries = pop()
    in_chunks('RPUSH', taken_by(worker), entries)
end

local elsewhere = 0
for _, name in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    if name ~= worker then
        elsewhere = elsewhere + redis.call('LLEN', taken_by(name))
    end
end
return { entries, elsewhere }
