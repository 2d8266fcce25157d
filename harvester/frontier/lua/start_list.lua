-- The start list of a spider: a list, a set, or a sorted set whose entries with the highest score come first.

local WORKERS = P .. 'start:workers'

local function taken_by(name)
    return P .. 'start:taken:' .. name
end

-- Where parts of it were filed: part -> place.
local function filed_by(name)
    return P .. 'start:filed:' .. name
end

-- Puts back in front of the start list what a worker has taken and not confirmed, and forgets the worker.
local function put_back(name, key, kind)
    if kind == 'list' then
        while redis.call('LMOVE', taken_by(name), key, 'RIGHT', 'LEFT') do end
    else
        for _, entry in ipairs(redis.call('LRANGE', taken_by(name), 0, -1)) do
            if kind == 'set' then
                redis.call('SADD', key, entry)
            else
                redis.call('ZADD', key, 'inf', entry)
            end
        end
        redis.call('DEL', taken_by(name))
    end
    redis.call('ZREM', WORKERS, name)
end
