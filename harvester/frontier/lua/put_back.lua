-- After Redis has forgotten something: makes one whole of what is left, then puts back what a worker has.
-- ARGV: a token for a new epoch, should there be none; the worker's requests (msgpack); their payloads. A request is {id,
-- fingerprint, its low 32 bits, first and last byte of its payload, token, url, priority, job, site, attempts, deliveries}.
-- Returns {how many were not there, the epoch}.

local LITERAL = string.gsub(P, '([%*%?%[%]%^%-\\])', '\\%1')

-- Keys of this frontier that begin like this -> the rest of their names.
local function keys_below(start)
    local cursor, names = '0', {}
    repeat
        local page = redis.call('SCAN', cursor, 'MATCH', LITERAL .. start .. '*', 'COUNT', CHUNK)
        cursor = page[1]
        for _, key in ipairs(page[2]) do
            names[string.sub(key, #P + #start + 1)] = true
        end
    until cursor == '0'
    return names
end

local placed, counted = {}, {} -- id -> true; job -> place -> how many
local dead_by_outcome = {}

local function note(id, place)
    local job = entries[id][JOB]
    placed[id] = true
    counted[job] = counted[job] or {}
    counted[job][place] = (counted[job][place] or 0) + 1
end

-- Leaves in the set only ids whose request is there, and that stand in no other one.
local function sift(key, place)
    local kept, gone = {}, {}
    local ids = redis.call('ZRANGE', key, 0, -1)
    preload(ids)
    for _, id in ipairs(ids) do
        if entries[id] and not placed[id] and redis.call('HEXISTS', P .. 'payloads', id) == 1 then
            note(id, place)
            kept[#kept + 1] = id
        else
            gone[#gone + 1] = id
        end
    end
    in_chunks('ZREM', key, gone)
    return kept
end

local function sift_leases()
    for worker in pairs(keys_below('held:')) do
        redis.call('DEL', P .. 'held:' .. worker) -- of one whose leases were forgotten, too
    end
    for worker in pairs(keys_below('leases:')) do
        sift(P .. 'leases:' .. worker, 'leased')
        count_held(worker)
        redis.call('ZADD', P .. 'workers', 'NX', now, worker) -- one that is dead is found silent
    end
end

local function sift_ready()
    for key in pairs(keys_below('ready:')) do
        local job, line = job_and_line(key)
        local site = site_of_line(line)
        local parked = is_shut(site)
        if #sift(P .. 'ready:' .. key, parked and 'parked' or 'ready') == 0 then
            leave_parked(site, key)
        elseif parked then
            add_parked(site, key)
            redis.call('ZREM', P .. 'sites:' .. job, line)
        else
            leave_parked(site, key)
            enter(P .. 'sites:' .. job, line)
            enter(P .. 'jobs', job)
        end
    end
end

-- Requests that stand nowhere are ready; what lacks its payload, or has nothing else, goes.
local function sift_entries()
    local strays = {}
    for _, id in ipairs(redis.call('HKEYS', P .. 'entries')) do
        if not placed[id] then
            strays[#strays + 1] = id
        end
    end
    preload(strays)
    for _, id in ipairs(strays) do
        if redis.call('HEXISTS', P .. 'payloads', id) == 1 then
            make_ready(id, entries[id])
            note(id, is_shut(entries[id][SITE]) and 'parked' or 'ready')
        else
            remove(id)
        end
    end
    for _, id in ipairs(redis.call('HKEYS', P .. 'payloads')) do
        if not placed[id] then
            remove(id)
        end
    end
    flush()
    totals, by_job = {}, {} -- they are set, not added to
end

-- Leaves only items whose requests are all there, or that workers are still to be told of: the ledger has the others fed
-- again. Returns how many of each job are open.
local function sift_items()
    local here, strays, lost, open, all = {}, {}, {}, {}, 0
    local closed = { ended = {}, over = {} }
    for _, request in ipairs(redis.call('HKEYS', P .. 'belongs')) do
        if placed[request] then
            for _, item in ipairs(cmsgpack.unpack(redis.call('HGET', P .. 'belongs', request))) do
                local attempt = item[1] .. '\0' .. item[2]
                here[attempt] = (here[attempt] or 0) + 1
            end
        else
            strays[#strays + 1] = request
        end
    end
    for state, ids in pairs(closed) do
        for _, id in ipairs(redis.call('ZRANGE', P .. state, 0, -1)) do
            ids[id] = true
        end
    end
    for _, id in ipairs(redis.call('HKEYS', P .. 'items')) do
        local attempt = cmsgpack.unpack(redis.call('HGET', P .. 'items', id))
        local state, job = attempt.state, items.job_of(id)
        if state == 'open' and here[id .. '\0' .. attempt.number] == attempt.here then
            open[job], all = (open[job] or 0) + 1, all + 1
        elseif state ~= 'open' and closed[state][id] then
            closed[state][id] = nil
        else
            lost[#lost + 1] = id
        end
    end
    in_chunks('HDEL', P .. 'belongs', strays)
    in_chunks('HDEL', P .. 'items', lost)
    for state, ids in pairs(closed) do
        for id in pairs(ids) do
            redis.call('ZREM', P .. state, id)
        end
    end
    redis.call('HSET', P .. 'counts', 'items', all, 'belonging', redis.call('HLEN', P .. 'belongs'))
    return open
end

local function set_counts(key, there)
    local before = redis.call('HMGET', key, 'queued', 'done', 'skipped')
    local here, row = 0, {}
    for _, place in ipairs({ 'ready', 'parked', 'waiting', 'leased', 'dead' }) do
        local number = there[place] or 0
        here = here + number
        row[#row + 1], row[#row + 2] = place, number
    end
    local ended = (before[2] or 0) + (before[3] or 0) + here
    local queued = math.max(before[1] or 0, ended)
    redis.call('HSET', key, 'queued', queued, 'lost', queued - ended, unpack(row))
end

local function mend()
    for _, id in ipairs(sift(P .. 'dead', 'dead')) do
        local outcome = is_dead(entries[id]) and entries[id][OUTCOME] or 'worker_lost'
        dead_by_outcome[outcome] = (dead_by_outcome[outcome] or 0) + 1
    end
    sift(P .. 'waiting', 'waiting')
    sift_leases()
    sift_ready()
    sift_entries()
    local all = {}
    for job in pairs(counted) do
        redis.call('SADD', P .. 'scopes', job)
    end
    for job in pairs(keys_below('job:')) do
        redis.call('SADD', P .. 'scopes', job)
    end
    for _, job in ipairs(redis.call('SMEMBERS', P .. 'scopes')) do
        set_counts(P .. 'job:' .. job, counted[job] or {})
        for place, number in pairs(counted[job] or {}) do
            all[place] = (all[place] or 0) + number
        end
    end
    set_counts(P .. 'counts', all)
    local open = sift_items()
    for _, job in ipairs(redis.call('SMEMBERS', P .. 'scopes')) do
        redis.call('HSET', P .. 'job:' .. job, 'items', open[job] or 0)
    end
    for outcome, number in pairs(dead_by_outcome) do
        redis.call('HSET', P .. 'counts', 'dead:' .. outcome, number)
    end
end

local state = redis.call('HMGET', P .. 'counts', 'seq', 'epoch')
if not state[2] then
    items.forget_all()
end
if is_damaged() then
    mend()
end
local seq, epoch, missing = tonumber(state[1] or 0), state[2] or ARGV[1], 0
for _, row in ipairs(cmsgpack.unpack(ARGV[2])) do
    local id, fingerprint, low, first, last, token, url, priority, job, site, attempts, deliveries = unpack(row)
    if not load(id) then
        missing, seq = missing + 1, seq + 1
        see(scope_of(job), fingerprint, low)
        local entry = { job, site, priority, seq, attempts, deliveries, token, url, wall }
        remember(entry, 'put_back', '', '')
        store(id, entry)
        bodies[id] = string.sub(ARGV[3], first, last)
        count(job, 'queued', 1)
        make_ready(id, entry)
    end
end
redis.call('HSET', P .. 'counts', 'seq', seq, 'epoch', epoch)
finish()
keep_time()
return { missing, epoch }
