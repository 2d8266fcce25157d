-- What all scripts of the frontier share; it is put in front of each. KEYS[1] is the prefix of all keys of a spider.
--
-- An entry is {job, site, priority, seq, attempts, deliveries, token, url, queued at, history, outcome, reason}.
-- Where a request is follows from which set holds its id; its entry changes only when it is sent on its way again.

local P = KEYS[1]
local JOB, SITE, PRIORITY, SEQ, ATTEMPTS, DELIVERIES, TOKEN, URL, QUEUED, HISTORY, OUTCOME, REASON =
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
local MOST_HISTORY = 10
local MOST_PRIORITY = 4095
local ARRIVALS = 2 ^ 40
local CHUNK = 1000 -- arguments of one command; Lua's stack holds 8000

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function load(id)
    local packed = redis.call('HGET', P .. 'entries', id)
    return packed and cmsgpack.unpack(packed)
end

local function store(id, entry)
    redis.call('HSET', P .. 'entries', id, cmsgpack.pack(entry))
end

local function remember(entry, event, outcome, reason)
    local history = entry[HISTORY] or {}
    if #history >= MOST_HISTORY then
        table.remove(history, 1)
    end
    history[#history + 1] = { now, event, outcome, reason }
    entry[HISTORY] = history
end

-- Counts are gathered here and written once, by write_counts.
local totals, by_job = {}, {}

local function count_all(field, by)
    totals[field] = (totals[field] or 0) + by
end

local function count(job, field, by)
    count_all(field, by)
    local counts = by_job[job]
    if not counts then
        counts = {}
        by_job[job] = counts
    end
    counts[field] = (counts[field] or 0) + by
end

local function write_counts()
    for field, by in pairs(totals) do
        if by ~= 0 then
            redis.call('HINCRBY', P .. 'counts', field, by)
        end
    end
    for job, counts in pairs(by_job) do
        redis.call('SADD', P .. 'scopes', job)
        for field, by in pairs(counts) do
            if by ~= 0 then
                redis.call('HINCRBY', P .. 'job:' .. job, field, by)
            end
        end
    end
end

-- A newcomer to a round starts at the least virtual time of those present.
local function enter(round, member)
    if not redis.call('ZSCORE', round, member) then
        local first = redis.call('ZRANGE', round, 0, 0, 'WITHSCORES')
        redis.call('ZADD', round, first[2] or 0, member)
    end
end

local entered = {}

local function make_ready(id, entry)
    local job, site = entry[JOB], entry[SITE]
    local place = job .. '\0' .. site
    local priority = math.max(-MOST_PRIORITY, math.min(MOST_PRIORITY, entry[PRIORITY]))
    redis.call('ZADD', P .. 'ready:' .. place, entry[SEQ] - priority * ARRIVALS, id)
    if not entered[place] then
        entered[place] = true
        enter(P .. 'sites:' .. job, site)
        enter(P .. 'jobs', job)
    end
    count(job, 'ready', 1)
end

local function place(id, entry, due)
    if due > now then
        redis.call('ZADD', P .. 'waiting', due, id)
        count(entry[JOB], 'waiting', 1)
    else
        make_ready(id, entry)
    end
end

local function remove(id)
    redis.call('HDEL', P .. 'entries', id)
    redis.call('HDEL', P .. 'payloads', id)
end

-- Ends a lease. Returns the entry; nil when the worker does not hold it.
local function unlease(worker, id)
    if redis.call('ZREM', P .. 'leases:' .. worker, id) == 0 then
        return nil
    end
    local entry = load(id)
    if redis.call('HINCRBY', P .. 'held:' .. worker, entry[SITE], -1) <= 0 then
        redis.call('HDEL', P .. 'held:' .. worker, entry[SITE])
    end
    count(entry[JOB], 'leased', -1)
    return entry
end

local function give_back(worker, id)
    local entry = unlease(worker, id)
    if entry then
        make_ready(id, entry)
    end
    return entry
end

local function bury(id, entry, outcome, reason)
    remember(entry, 'dead', outcome, reason)
    entry[OUTCOME], entry[REASON] = outcome, reason
    store(id, entry)
    redis.call('ZADD', P .. 'dead', now, id)
    count(entry[JOB], 'dead', 1)
    count_all('dead:' .. outcome, 1)
end

-- Takes a dead letter out of the dead. The caller stores the entry and places it.
local function raise(id, entry)
    redis.call('ZREM', P .. 'dead', id)
    count(entry[JOB], 'dead', -1)
    count_all('dead:' .. entry[OUTCOME], -1)
    entry[OUTCOME], entry[REASON] = nil, nil
    entry[ATTEMPTS], entry[DELIVERIES] = 0, 0
end

-- The worker was lost with this lease.
local function redeliver(worker, id, max_deliveries)
    local entry = unlease(worker, id)
    if not entry then
        return
    end
    entry[DELIVERIES] = entry[DELIVERIES] + 1
    if entry[DELIVERIES] > max_deliveries then
        bury(id, entry, 'worker_lost', entry[DELIVERIES] .. ' workers ended while they held it, the last was ' .. worker)
    else
        remember(entry, 'redelivered', 'worker_lost', worker)
        store(id, entry)
        make_ready(id, entry)
        count_all('redelivered', 1)
    end
end

-- Whether Redis was heard by any worker without a gap for so long. After an outage every heartbeat is old,
-- which says nothing about the workers.
local function steady(timeout)
    local beats = redis.call('HMGET', P .. 'beats', 'last', 'since')
    return beats[1] and now - beats[1] <= timeout / 2 and now - beats[2] >= timeout
end

-- Seen fingerprints: linear hashing over sets that stay small enough to be arrays of integers.
local FILL = 200 -- members of a shard on average; one that waits to be split holds up to twice that
local MOST_MODULUS = 2 ^ 26
local scopes = {}

local function scope_of(job)
    local scope = scopes[job]
    if not scope then
        local fields = redis.call('HMGET', P .. 'job:' .. job, 'size', 'split', 'seen')
        scope = {
            key = P .. 'seen:' .. job .. ':',
            size = tonumber(fields[1] or 1),
            split = tonumber(fields[2] or 0),
            seen = tonumber(fields[3] or 0),
        }
        scopes[job] = scope
    end
    return scope
end

local function write_scopes()
    for job, scope in pairs(scopes) do
        if scope.changed then
            redis.call('SADD', P .. 'scopes', job)
            redis.call('HSET', P .. 'job:' .. job, 'size', scope.size, 'split', scope.split, 'seen', scope.seen)
        end
    end
end

local function shard_of(scope, number)
    local shard = number % scope.size
    if shard < scope.split then
        shard = number % (scope.size * 2)
    end
    return scope.key .. shard
end

-- The decimal integer modulo a power of two. A double holds only 53 bits of it, so it is taken in two parts.
local function residue(text, modulus)
    local negative = string.byte(text) == 45
    local digits = negative and string.sub(text, 2) or text
    local rest
    if #digits < 16 then
        rest = tonumber(digits) % modulus
    else
        local high, low = tonumber(string.sub(digits, 1, -10)), tonumber(string.sub(digits, -9))
        rest = ((high % modulus) * (1000000000 % modulus) + low) % modulus
    end
    return negative and (modulus - rest) % modulus or rest
end

local function in_chunks(command, key, members)
    for first = 1, #members, CHUNK do
        redis.call(command, key, unpack(members, first, math.min(#members, first + CHUNK - 1)))
    end
end

local function split(scope)
    local from, modulus = scope.key .. scope.split, scope.size * 2
    local members = redis.call('SMEMBERS', from)
    local moved = {}
    for _, member in ipairs(members) do
        if residue(member, modulus) ~= scope.split then
            moved[#moved + 1] = member
        end
    end
    in_chunks('SREM', from, moved)
    in_chunks('SADD', scope.key .. (scope.split + scope.size), moved)
    scope.split = scope.split + 1
    if scope.split == scope.size then
        scope.size, scope.split = modulus, 0
    end
end

-- Whether the fingerprint is new. `number` is its low 32 bits.
local function see(scope, fingerprint, number)
    if redis.call('SADD', shard_of(scope, number), fingerprint) == 0 then
        return false
    end
    scope.seen = scope.seen + 1
    scope.changed = true
    if scope.seen > FILL * (scope.size + scope.split) and scope.size < MOST_MODULUS then
        split(scope)
    end
    return true
end
