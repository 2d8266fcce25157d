-- What all scripts of the frontier share; it is put in front of each. KEYS[1] is the prefix of all keys of a spider.
--
-- An entry is {job, site, priority, seq, attempts, deliveries, token, url, queued at, history, outcome, reason, targets}.
-- Outcome and reason are those of a dead letter; targets are the fingerprints to which it was redirected, each in the
-- hash `targets` too (its id there -> the id of the entry).
-- Where a request is follows from which set holds its id; its entry changes only when it is sent on its way again.

local P = KEYS[1]
local JOB, SITE, PRIORITY, SEQ, ATTEMPTS, DELIVERIES, TOKEN, URL, QUEUED, HISTORY, OUTCOME, REASON, TARGETS =
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
local MOST_HISTORY = 10
local MOST_PRIORITY = 4095
local ARRIVALS = 2 ^ 40
local SUSPECTS = '\1' -- in front of a site
local ANSWERED = 24 * 3600 * 1000 -- how long it is known which answer a worker got last
local CHUNK = 1000 -- arguments of one command; Lua's stack holds 8000
local TELLING = 60000 -- how long a worker may take with what it was told
local items = {} -- what is done with job items: see items.lua

-- `now` never goes back, whatever is done to the host's clock: by how much that was set back is kept in `clock` beside the
-- last time, and forgotten when it is set forward by as much. `wall` is the host's own time, for people to read.
local LEAP = 60000 -- time passes by itself between two exchanges
local clock = redis.call('TIME')
local wall = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now, offset, went_back
do
    local kept = redis.call('HMGET', P .. 'clock', 'last', 'offset')
    local last = tonumber(kept[1] or wall)
    offset = tonumber(kept[2] or 0)
    went_back = math.max(0, last - wall - offset)
    if went_back > 0 or wall + offset - last > math.max(LEAP, 0.9 * offset) then
        offset = math.max(0, last - wall)
    end
    now = wall + offset
end

local function keep_time()
    redis.call('HSET', P .. 'clock', 'last', now, 'offset', offset)
end

local function in_chunks(command, key, values)
    for first = 1, #values, CHUNK do
        redis.call(command, key, unpack(values, first, math.min(#values, first + CHUNK - 1)))
    end
end

-- What is to be written is gathered in tables, and written by flush: a command for each member would cost the most.
local entries = {} -- id -> entry, false when there is none
local stored, bodies, removed, left_targets = {}, {}, {}, {}
local readied, waits, graves, unleased, held, uncounted = {}, {}, {}, {}, {}, {}
local totals, by_job = {}, {}

local function preload(ids)
    for first = 1, #ids, CHUNK do
        local last = math.min(#ids, first + CHUNK - 1)
        local packed = redis.call('HMGET', P .. 'entries', unpack(ids, first, last))
        for i = first, last do
            local each = packed[i - first + 1]
            entries[ids[i]] = each and cmsgpack.unpack(each)
        end
    end
end

local function load(id)
    if entries[id] == nil then
        preload({ id })
    end
    return entries[id]
end

local function store(id, entry)
    entries[id] = entry
    stored[id] = true
end

-- The id under which a request of that fingerprint is queued.
local function id_of(job, fingerprint)
    return job == '' and fingerprint or job .. ':' .. fingerprint
end

local function is_dead(entry)
    return (entry[OUTCOME] or '') ~= ''
end

-- The entry is no dead letter (any more).
local function absolve(entry)
    local none = entry[TARGETS] and '' -- an array has no holes
    entry[OUTCOME], entry[REASON] = none, none
end

local function leave_targets(entry)
    for _, fingerprint in ipairs(entry[TARGETS] or {}) do
        left_targets[#left_targets + 1] = id_of(entry[JOB], fingerprint)
    end
end

local function remove(id)
    if entries[id] then
        leave_targets(entries[id])
    end
    entries[id] = false
    stored[id], bodies[id] = nil, nil
    removed[#removed + 1] = id
end

local function remember(entry, event, outcome, reason)
    local history = entry[HISTORY] or {}
    if #history >= MOST_HISTORY then
        table.remove(history, 1)
    end
    history[#history + 1] = { wall, event, outcome, reason }
    entry[HISTORY] = history
end

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

local function add_to(key, changes)
    local fields, sums = {}, {}
    for field, by in pairs(changes) do
        if by ~= 0 then
            fields[#fields + 1] = field
        end
    end
    if #fields > 0 then
        for i, before in ipairs(redis.call('HMGET', key, unpack(fields))) do
            sums[2 * i - 1], sums[2 * i] = fields[i], (before or 0) + changes[fields[i]]
        end
        redis.call('HSET', key, unpack(sums))
    end
end

-- A newcomer to a round starts at the least virtual time of those present.
local function enter(round, member)
    if not redis.call('ZSCORE', round, member) then
        local first = redis.call('ZRANGE', round, 0, 0, 'WITHSCORES')
        redis.call('ZADD', round, first[2] or 0, member)
    end
end

-- The line in which a request waits for its turn: that of its site. One that two workers were lost with may be what
-- kills them. It waits in a line of its own kind, of which a worker holds one at a time: so none beside it is blamed.
local function line_of(entry)
    return entry[DELIVERIES] >= 2 and SUSPECTS .. entry[SITE] or entry[SITE]
end

-- Sites that are left alone; the lines of their requests stand in no round: they are parked. There may be very many of
-- them, so a script looks at those that it is about. In `shut` are also tiers of proxies at a site (site \0 tier), for
-- which nothing is parked.
local shut = {}

local function is_shut(site)
    if shut[site] == nil then
        shut[site] = redis.call('ZSCORE', P .. 'shut', site) ~= false
    end
    return shut[site]
end

-- A line (job \0 line) of a site that is left alone. Beside all in `parked`, those of each site are in a set of its own.
local function add_parked(site, key)
    redis.call('SADD', P .. 'parked', key)
    redis.call('SADD', P .. 'parked:' .. site, key)
    if redis.call('SISMEMBER', P .. 'probing', site) == 1 then
        redis.call('SADD', P .. 'probed', site)
    end
end

local function leave_parked(site, key)
    redis.call('SREM', P .. 'parked', key)
    redis.call('SREM', P .. 'parked:' .. site, key)
end

local function make_ready(id, entry)
    local job, site = entry[JOB], line_of(entry)
    local key = job .. '\0' .. site
    local here = readied[key]
    if not here then
        here = { job = job, site = site, parked = is_shut(entry[SITE]) and entry[SITE] }
        readied[key] = here
    end
    local priority = math.max(-MOST_PRIORITY, math.min(MOST_PRIORITY, entry[PRIORITY]))
    here[#here + 1] = entry[SEQ] - priority * ARRIVALS
    here[#here + 1] = id
    count(job, here.parked and 'parked' or 'ready', 1)
end

local function place(id, entry, delay)
    if delay > 0 then
        waits[#waits + 1] = now + delay
        waits[#waits + 1] = id
        count(entry[JOB], 'waiting', 1)
    else
        make_ready(id, entry)
    end
end

-- How many leases of the site the worker holds; `by` changes it.
local function held_of(worker, site, by)
    local sites = held[worker]
    if not sites then
        sites = {}
        held[worker] = sites
    end
    local number = sites[site] or tonumber(redis.call('HGET', P .. 'held:' .. worker, site) or 0)
    sites[site] = number + by
    return number + by
end

-- What Redis has thrown away is counted where it was found missing: `lost` then stands in the place of the request. One of
-- job items is as if it had never been: they are fed again.
local function lose(id, place)
    local job = string.match(id, '^(.*):%-?%d+') or '' -- see entry_id in keys.py
    count(job, place, -1)
    if items.lose(id) then
        count(job, 'queued', -1)
    else
        count(job, 'lost', 1)
    end
    remove(id)
end

-- Of these ids those whose requests are there.
local function found(ids, place)
    preload(ids)
    local there = {}
    for _, id in ipairs(ids) do
        if entries[id] then
            there[#there + 1] = id
        else
            lose(id, place)
        end
    end
    return there
end

-- Ends a lease that the worker holds.
local function unlease(worker, id, entry)
    local ids = unleased[worker]
    if not ids then
        ids = {}
        unleased[worker] = ids
    end
    ids[#ids + 1] = id
    if entry then
        held_of(worker, line_of(entry), -1)
        count(entry[JOB], 'leased', -1)
    else
        uncounted[worker] = true -- nobody knows of which line it was
        lose(id, 'leased')
    end
end

-- Counts what the worker holds by its leases.
local function count_held(worker)
    redis.call('DEL', P .. 'held:' .. worker)
    held[worker] = {}
    local ids = redis.call('ZRANGE', P .. 'leases:' .. worker, 0, -1)
    preload(ids)
    for _, id in ipairs(ids) do
        if entries[id] then
            held_of(worker, line_of(entries[id]), 1)
        end
    end
end

local function give_back(worker, id)
    local entry = load(id)
    unlease(worker, id, entry)
    if entry then
        make_ready(id, entry)
    end
end

local function pairs_of(ids, value_of)
    local flat = {}
    for id in pairs(ids) do
        flat[#flat + 1] = id
        flat[#flat + 1] = value_of(id)
    end
    return flat
end

-- Writes what was gathered, except counts: leases may follow.
local function flush()
    in_chunks('HDEL', P .. 'entries', removed)
    in_chunks('HDEL', P .. 'payloads', removed)
    in_chunks('HDEL', P .. 'targets', left_targets)
    in_chunks('HSET', P .. 'entries', pairs_of(stored, function(id)
        return cmsgpack.pack(entries[id])
    end))
    in_chunks('HSET', P .. 'payloads', pairs_of(bodies, function(id)
        return bodies[id]
    end))
    for worker, ids in pairs(unleased) do
        in_chunks('ZREM', P .. 'leases:' .. worker, ids)
    end
    in_chunks('ZADD', P .. 'waiting', waits)
    in_chunks('ZADD', P .. 'dead', graves)
    for key, members in pairs(readied) do
        in_chunks('ZADD', P .. 'ready:' .. key, members)
        if members.parked then
            add_parked(members.parked, key)
        else
            enter(P .. 'sites:' .. members.job, members.site)
            enter(P .. 'jobs', members.job)
        end
    end
    stored, bodies, removed, left_targets = {}, {}, {}, {}
    unleased, waits, graves, readied = {}, {}, {}, {}
end

local function site_of_line(line)
    return string.sub(line, 1, 1) == SUSPECTS and string.sub(line, 2) or line
end

-- The key of a line is job \0 line. There may be zero bytes in the name of a job, and in that of a line is none.
local function job_and_line(key)
    return string.match(key, '^(.*)%z(.*)$')
end

local function bytes_of(key)
    local size = redis.pcall('MEMORY', 'USAGE', key)
    return type(size) == 'number' and size or 0
end

-- Job and line of each key of parked requests of a site.
local function parked_lines(site)
    local lines = {}
    for _, key in ipairs(redis.call('SMEMBERS', P .. 'parked:' .. site)) do
        local job, line = job_and_line(key)
        lines[#lines + 1] = { key = key, job = job, line = line }
    end
    return lines
end

-- Takes a dead letter out of the dead. The caller stores the entry and places it, or removes it.
local function raise(id, entry)
    if #graves > 0 then
        flush()
    end
    redis.call('ZREM', P .. 'dead', id)
    count(entry[JOB], 'dead', -1)
    count_all('dead:' .. entry[OUTCOME], -1)
    absolve(entry)
    entry[ATTEMPTS], entry[DELIVERIES] = 0, 0
end

-- The request was asked for after others for the same had died, and has come to its end: those dead letters are done.
-- Of those that were not filtered, the hash `unfiltered_dead` knows the last one.
local function supersede(id, entry)
    local base = string.gsub(id, '#[^#:]*$', '')
    for _, other in ipairs({ base, redis.call('HGET', P .. 'unfiltered_dead', base) or base }) do
        local died = other ~= id and redis.call('ZSCORE', P .. 'dead', other)
        local dead = died and tonumber(died) <= entry[QUEUED] and load(other)
        if dead and is_dead(dead) then
            raise(other, dead)
            remove(other)
            redis.call('HDEL', P .. 'unfiltered_dead', base)
            count(dead[JOB], 'done', 1)
            count_all('done:superseded', 1)
        end
    end
    return base
end

-- The request is given up. One of job items leaves no dead letter: the ledger keeps why it failed, and tries again.
local function bury(id, entry, outcome, reason)
    if items.leave(id, outcome, reason) then
        remove(id)
        count(entry[JOB], 'done', 1)
        count_all('done:' .. outcome, 1)
        return
    end
    local base = supersede(id, entry)
    if base ~= id then
        redis.call('HSET', P .. 'unfiltered_dead', base, id)
    end
    remember(entry, 'dead', outcome, reason)
    entry[OUTCOME], entry[REASON] = outcome, reason
    store(id, entry)
    graves[#graves + 1] = wall
    graves[#graves + 1] = id
    count(entry[JOB], 'dead', 1)
    count_all('dead:' .. outcome, 1)
end

-- The worker was lost with this lease. When something blocks it ({ id, words }), only the request for which that ran is
-- to blame; a delivery of the others is not spent.
local function redeliver(worker, id, max_deliveries, blocked)
    local entry = load(id)
    unlease(worker, id, entry)
    if not entry then
        return
    end
    local outcome, reason = 'worker_lost', worker
    if blocked and blocked[1] == id then
        outcome, reason = 'callback_blocked', blocked[2]
    elseif blocked then
        outcome, reason = 'worker_blocked', worker .. ', by what another request led to'
    end
    if outcome ~= 'worker_blocked' then
        entry[DELIVERIES] = entry[DELIVERIES] + 1
    end
    if entry[DELIVERIES] > max_deliveries then
        if outcome == 'worker_lost' then
            reason = entry[DELIVERIES] .. ' workers ended while they held it, the last was ' .. worker
        end
        bury(id, entry, outcome, reason)
    else
        remember(entry, 'redelivered', outcome, reason)
        store(id, entry)
        make_ready(id, entry)
        count_all('redelivered', 1)
    end
end

-- Whether Redis was heard by any worker without a gap for so long. After an outage every heartbeat is old,
-- which says nothing about the workers.
local function steady(timeout)
    local beats = redis.call('HMGET', P .. 'counts', 'beat', 'since')
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

-- Forgets the last shards of a job, so many at most: what they held maps to the shards below, which do not know it.
-- Returns how many fingerprints, and whether shards are left.
local function forget_shards(scope, most)
    local forgotten, left = 0, true
    for _ = 1, most do
        local key = scope.key .. (scope.size + scope.split - 1)
        forgotten = forgotten + redis.call('SCARD', key)
        redis.call('UNLINK', key)
        if scope.size == 1 and scope.split == 0 then
            left = false
            break
        end
        if scope.split == 0 then
            scope.size = scope.size / 2
            scope.split = scope.size
        end
        scope.split = scope.split - 1
    end
    scope.seen = left and math.max(0, scope.seen - forgotten) or 0
    scope.changed = true
    return forgotten, left
end

-- Whether what is counted is not what is there: somebody has deleted keys, or Redis has thrown them away.
local function is_damaged()
    local counted =
        redis.call('HMGET', P .. 'counts', 'ready', 'parked', 'waiting', 'leased', 'dead', 'fed', 'items', 'belonging')
    for i = 1, #counted do
        counted[i] = tonumber(counted[i] or 0)
    end
    local there = redis.call('HLEN', P .. 'entries')
    local all, leased = 0, 0
    for place = 1, 5 do
        all = all + counted[place]
    end
    for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', 0, -1)) do
        leased = leased + redis.call('ZCARD', P .. 'leases:' .. worker)
    end
    return all ~= there or redis.call('HLEN', P .. 'payloads') ~= there
        or redis.call('ZCARD', P .. 'waiting') ~= counted[3] or leased ~= counted[4]
        or redis.call('ZCARD', P .. 'dead') ~= counted[5]
        or (counted[1] > 0 and redis.call('EXISTS', P .. 'jobs') == 0)
        or (counted[6] > 0 and items.are_damaged(counted[7], counted[8]))
end

-- Writes counts, and all else; the last thing that a script does.
local function finish()
    flush()
    items.settle()
    for worker in pairs(uncounted) do
        count_held(worker)
    end
    for worker, sites in pairs(held) do
        local some, none = {}, {}
        for site, number in pairs(sites) do
            if number > 0 then
                some[#some + 1] = site
                some[#some + 1] = number
            else
                none[#none + 1] = site
            end
        end
        in_chunks('HSET', P .. 'held:' .. worker, some)
        in_chunks('HDEL', P .. 'held:' .. worker, none)
    end
    add_to(P .. 'counts', totals)
    for job, counts in pairs(by_job) do
        redis.call('SADD', P .. 'scopes', job)
        if job ~= '' then
            redis.call('ZADD', P .. 'touched', now, job)
        end
        add_to(P .. 'job:' .. job, counts)
    end
    for job, scope in pairs(scopes) do
        if scope.changed then
            redis.call('HSET', P .. 'job:' .. job, 'size', scope.size, 'split', scope.split, 'seen', scope.seen)
        end
    end
end
