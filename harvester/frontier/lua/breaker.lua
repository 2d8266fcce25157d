-- The breakers of sites; put in front of the scripts that change them, after common.lua.
--
-- Here counts are added up and requests are moved. Whether a site is to be left alone, or asked again, is decided by
-- harvester/breaker/judgement.py. A decision names the `version` of the breaker that was judged, which counts its changes
-- of state: of two workers that decide the same, one is heard (breaker_set.lua).
--
-- A breaker has one of four states. closed: its site is asked. open: its site is left alone until `due`, and its
-- requests are parked. half_open: a few of them, the probes, are let out. held: a person wants the site left alone,
-- until `due` if that person gave a time, else until somebody changes it.
-- Its name is that of the site, or site \0 tier for a tier of proxies there; then nothing is parked, requests go past it,
-- and workers ask for its probes (breaker_probe.lua). Each time that it is half open is a trial with a number; only its
-- own probes decide it. All breakers are in the hash `breakers`; `shut` has those that are not closed, with the time at
-- which they may change, `alone` since when they are not (0: held without a time), `probing` the half open ones of sites,
-- `probed` those of them that may give probes. `changes` has the version that each came with: a worker asks for what is newer than what
-- it knows. All sites of a crawl may be left alone, so a script is about some of them, however many there are.
-- Each change is kept in `alerts` until a worker has told people of it; `untold` says when one was last given to a worker.
-- `risen` has the dead letters that openings bring back.

local WINDOW, OPEN, PROBES, SAMPLE = 1, 6, 8, 9 -- of rules, see SiteBreaker.rules
local BUCKETS = 10 -- of a window
local PAGE_SAMPLES, RECORD_SAMPLES = 21, 6 -- that are kept; the last may not be full yet
local MOST_DIED = 200 -- dead letters that an opening brings back
local MOST_PARKED = 5 -- times that a failed request is parked instead of given up
local MOST_WOKEN = 50 -- breakers whose time has come, of one script
local MOST_RISEN = 200 -- dead letters that one script brings back
local FORGOTTEN = 24 * 3600 * 1000 -- a closed breaker that was not heard of for so long says nothing any more

local seq -- of the request that was queued last; a script that parks or queues any reads and writes it
local breakers, changed = {}, {}
local judged = {} -- name -> true, of those whose counts may decide something

-- `window` has a bucket of tries for each tenth of the window, `pages` and `records` (of each kind) have samples of what
-- came, the latest last. The row from `granted` on is of the present trial; `sent` are the ids of its probes. `died` are
-- dead letters of late.
local function new_breaker()
    return {
        state = 'closed', version = 0, since = now, opens = 0, cause = '', said = '', lost = {}, refusals = 0, failures = 0, misread = 0,
        window = {}, pages = {}, records = {}, bad = {}, died = {},
        trial = 0, granted = 0, sent = {}, good = 0, blank = 0, ill = 0, proved = {},
    }
end

local function breaker_of(name)
    if breakers[name] == nil then
        local packed = redis.call('HGET', P .. 'breakers', name)
        local b = packed and cmsgpack.unpack(packed)
        if b and not b.version then -- kept by the program's version before
            for field, value in pairs(new_breaker()) do
                b[field] = b[field] == nil and value or b[field]
            end
        end
        breakers[name] = b
    end
    return breakers[name]
end

local function save_breakers()
    for name in pairs(changed) do
        redis.call('HSET', P .. 'breakers', name, cmsgpack.pack(breakers[name]))
    end
end

-- Tries, failures and tries by outcome of the window.
local function in_window(b)
    local oldest = math.floor(now / (b.rules[WINDOW] / BUCKETS)) - BUCKETS
    local kept, tried, failed, outcomes = {}, 0, 0, {}
    for _, bucket in ipairs(b.window) do
        if bucket[1] > oldest then
            kept[#kept + 1] = bucket
            tried, failed = tried + bucket[2], failed + bucket[3]
            for outcome, number in pairs(bucket[4]) do
                outcomes[outcome] = (outcomes[outcome] or 0) + number
            end
        end
    end
    b.window = kept
    return tried, failed, outcomes
end

local function tier_of(name)
    local zero = string.find(name, '\0', 1, true)
    return zero and string.sub(name, zero + 1)
end

local function count_parked(site)
    local number = 0
    for _, each in ipairs(parked_lines(site)) do
        number = number + redis.call('ZCARD', P .. 'ready:' .. each.key)
    end
    return number
end

-- Requests of a site that workers hold.
local function count_leased(site)
    local number = 0
    for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', 0, -1)) do
        for _, each in ipairs(redis.call('HMGET', P .. 'held:' .. worker, site, SUSPECTS .. site)) do
            number = number + (each or 0)
        end
    end
    return number
end

local function last_change()
    local last = redis.call('ZRANGE', P .. 'changes', -1, -1, 'WITHSCORES')
    return tonumber(last[2] or 0)
end

-- The version that workers know is a time, so that one which a killed Redis has forgotten does not come again for another
-- change.
local function tell_workers(name)
    redis.call('ZADD', P .. 'changes', math.max(now, last_change() + 1), name)
end

-- Takes the lines of a site out of the rounds.
local function park(site)
    for _, job in ipairs(redis.call('ZRANGE', P .. 'jobs', 0, -1)) do
        for _, line in ipairs({ site, SUSPECTS .. site }) do
            if redis.call('ZREM', P .. 'sites:' .. job, line) == 1 then
                local key = job .. '\0' .. line
                local number = redis.call('ZCARD', P .. 'ready:' .. key)
                if number > 0 then
                    add_parked(site, key)
                    count(job, 'ready', -number)
                    count(job, 'parked', number)
                end
            end
        end
    end
end

local function unpark(site)
    for _, each in ipairs(parked_lines(site)) do
        leave_parked(site, each.key)
        local number = redis.call('ZCARD', P .. 'ready:' .. each.key)
        if number > 0 then
            enter(P .. 'sites:' .. each.job, each.line)
            enter(P .. 'jobs', each.job)
            count(each.job, 'ready', number)
            count(each.job, 'parked', -number)
        end
    end
end

-- Of a site that is left alone nobody knows why: Redis has lost its breaker.
local function ask_again(name)
    shut[name] = false
    for _, key in ipairs({ 'shut', 'alone' }) do
        redis.call('ZREM', P .. key, name)
    end
    for _, key in ipairs({ 'probing', 'probed' }) do
        redis.call('SREM', P .. key, name)
    end
    tell_workers(name)
    unpark(name)
end

local function found_or_made(name, rules)
    local b = breaker_of(name)
    if not b then
        if is_shut(name) then
            ask_again(name)
        end
        b = new_breaker()
        b.rules = rules
        breakers[name] = b
    end
    if b.rules[WINDOW] ~= rules[WINDOW] then
        b.window = {}
    end
    b.rules = rules
    changed[name] = true
    return b
end

-- Changes the state, and what is parked with it. The decision: the state `to`, `wait` in ms until it may change by itself
-- (nil: it does not), `by` whom, `drift` (pages, and those with nothing in them, that it is because of), and what of the
-- breaker is another from now on. Returns the event.
local function change(name, b, decision)
    flush()
    local tried, failed, outcomes = in_window(b)
    local from, to, tier = b.state, decision.to, tier_of(name)
    local site = tier and string.sub(name, 1, -#tier - 2) or name
    local due = decision.wait and now + decision.wait
    for _, field in ipairs({ 'cause', 'said', 'opens', 'lost', 'pages', 'records' }) do
        b[field] = decision[field] or b[field]
    end
    if from == 'closed' then
        b.opened = now
        shut[name] = true
        if not tier then
            park(site)
        end
    end
    local left = tier and 0 or count_parked(site) + count_leased(site)
    local event = { -- as harvester.breaker.states.BreakerChange
        string.format('%.0f', now) .. ' ' .. string.gsub(name, '%z', ' ') .. ' ' .. to, site, tier or '', from, to, now / 1000,
        b.cause, decision.by or '', (due or 0) / 1000, tried, failed, b.rules[WINDOW] / 1000,
        b.cause == 'layout' and math.ceil(b.misread) or math.max(b.refusals, b.failures),
        decision.drift or { 0, 0 }, b.lost, b.said, left, (now - (b.opened or now)) / 1000, outcomes,
    }
    if to == 'closed' then
        b.closed, b.window, b.died, b.refusals, b.failures, b.misread = now, {}, {}, 0, 0, 0
        shut[name] = false
        redis.call('ZREM', P .. 'shut', name)
        redis.call('ZREM', P .. 'alone', name)
        if not tier then
            unpark(site)
        end
    else
        redis.call('ZADD', P .. 'shut', due or '+inf', name)
        if not tier then
            redis.call('ZADD', P .. 'alone', to == 'held' and not due and 0 or b.opened or now, name)
        end
    end
    if to == 'open' then
        for _, each in ipairs(from == 'closed' and b.died or {}) do
            if each[2] > now - b.rules[WINDOW] then
                redis.call('RPUSH', P .. 'risen', each[1])
            end
        end
        b.died = {}
    end
    local probing = to == 'half_open' and not tier and 'SADD' or 'SREM'
    redis.call(probing, P .. 'probing', name)
    redis.call(probing, P .. 'probed', name)
    tell_workers(name)
    b.state, b.since, b.due, b.version = to, now, due, b.version + 1
    b.trial = b.trial + (to == 'half_open' and 1 or 0)
    b.granted, b.sent, b.good, b.blank, b.ill, b.proved = 0, {}, 0, 0, 0, {}
    changed[name] = true
    redis.call('HSET', P .. 'alerts', event[1], cmsgpack.pack(event))
    redis.call('ZADD', P .. 'untold', now - TELLING, event[1]) -- the next that asks may tell of it
    return event
end

local function send_probe(name, b, id)
    b.granted = b.granted + 1
    b.sent = b.sent or {} -- kept by the program's version before
    b.sent[id] = true
    changed[name] = true
end

-- A request that comes back unspent: if it was a probe, another one may be sent in its place.
local function take_back_probe(id, entry)
    local name = entry and entry[SITE]
    local b = name and is_shut(name) and breaker_of(name)
    if b and b.sent and b.sent[id] then
        b.granted, b.sent[id] = b.granted - 1, nil
        changed[name] = true
        redis.call('SADD', P .. 'probed', name)
    end
end

-- Adds to the last of these samples; a full one is followed by another. Returns whether it is full now.
local function add_sample(samples, number, counts, size, most)
    local last = samples[#samples]
    if not last or last[1] >= size then
        last = { 0, {} }
        samples[#samples + 1] = last
        if #samples > most then
            table.remove(samples, 1)
        end
    end
    last[1] = last[1] + number
    for name, times in pairs(counts) do
        last[2][name] = (last[2][name] or 0) + times
    end
    return last[1] >= size
end

local function add_records(records, kinds, size, most)
    local full = false
    for kind, seen in pairs(kinds) do
        records[kind] = records[kind] or {}
        full = add_sample(records[kind], seen[1], seen[2], size, most) or full
    end
    return full
end

-- Adds what a worker saw of a site.
local function hear(report)
    local name, rules, outcomes, bad, broken, refusals, failures, said, pages, probes, kinds, proved, read, misread =
        unpack(report)
    local b = found_or_made(name, rules)
    in_window(b)
    local number = math.floor(now / (rules[WINDOW] / BUCKETS))
    local bucket = b.window[#b.window]
    if not bucket or bucket[1] ~= number then
        bucket = { number, 0, 0, {} }
        b.window[#b.window + 1] = bucket
    end
    for outcome, times in pairs(outcomes) do
        bucket[2] = bucket[2] + times
        bucket[4][outcome] = (bucket[4][outcome] or 0) + times
    end
    for outcome, times in pairs(bad) do
        bucket[3] = bucket[3] + times
        b.bad[outcome] = true
    end
    if said ~= '' then
        b.said = said
    end
    b.refusals = broken and refusals or b.refusals + refusals
    b.failures = broken and failures or b.failures + failures
    b.misread = math.max(0, (b.misread or 0) - read) + misread
    b.bad['layout_changed'] = b.bad['layout_changed'] or misread > 0 or nil
    b.heard = now
    if b.state == 'closed' then
        local size = rules[SAMPLE]
        local full = size > 0 and add_sample(b.pages, pages[1], pages[2], size, PAGE_SAMPLES)
        full = size > 0 and add_records(b.records, kinds, size, RECORD_SAMPLES) or full
        judged[name] = full or next(bad) ~= nil or misread > 0 or nil
    elseif b.state == 'half_open' then
        local trial, well, ill, with, blank = unpack(probes)
        if trial == b.trial then -- what was sent before, or as a probe of an earlier trial, says nothing
            if b.cause == 'drift' then
                b.good, b.blank = b.good + with, b.blank + blank
            elseif b.cause ~= 'fields' then
                b.good = b.good + well
            end
            b.ill = b.ill + ill
            add_records(b.proved, proved, math.huge, 1)
            judged[name] = true
        end
    end
end

-- The breaker as it is judged. How many are parked says whether others may be probes.
local function shown(name)
    local b = { name = name, parked = tier_of(name) and 0 or count_parked(name) }
    for field, value in pairs(breaker_of(name)) do
        b[field] = field ~= 'died' and field ~= 'sent' and value or nil
    end
    return b
end

-- It failed for the reason for which its site is left alone: behind those that were not tried, it waits with them.
-- False when that was done often enough.
local function park_failed(id, entry, outcome, reason)
    local times = 0
    for _, event in ipairs(entry[HISTORY] or {}) do
        times = times + (event[2] == 'parked' and 1 or 0)
    end
    if times >= MOST_PARKED then
        return false
    end
    seq = seq + 1
    entry[SEQ] = seq
    remember(entry, 'parked', outcome, reason)
    store(id, entry)
    make_ready(id, entry)
    return true
end

-- What died of that for which a breaker was then opened.
local function raise_opened()
    for _, id in ipairs(redis.call('LPOP', P .. 'risen', MOST_RISEN) or {}) do
        local entry = redis.call('ZSCORE', P .. 'dead', id) and load(id)
        if entry then
            local outcome, reason, deliveries = entry[OUTCOME], entry[REASON], entry[DELIVERIES]
            raise(id, entry)
            entry[DELIVERIES] = deliveries
            if not park_failed(id, entry, outcome, reason) then
                bury(id, entry, outcome, reason)
            end
        end
    end
    flush()
end

-- Lets those out whose time has come. `patience`: how long probes may take before others are sent.
local function wake_breakers(patience)
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. 'shut', '-inf', now, 'LIMIT', 0, MOST_WOKEN)) do
        local b = breaker_of(name)
        if not b or b.state == 'closed' then
            ask_again(name)
        else
            local wait = math.max(patience, b.rules[OPEN])
            if b.state ~= 'half_open' then
                change(name, b, { to = 'half_open', wait = wait })
            else
                b.granted, b.sent, b.due = b.good + b.blank, {}, now + wait -- those that answered count on
                changed[name], judged[name] = true, true -- perhaps who heard of the last was lost before it judged
                redis.call('ZADD', P .. 'shut', b.due, name)
                if not tier_of(name) then
                    redis.call('SADD', P .. 'probing', name)
                    redis.call('SADD', P .. 'probed', name)
                end
            end
        end
    end
end

local function forget_breakers()
    for _, name in ipairs(redis.call('HRANDFIELD', P .. 'breakers', 2)) do
        local b = breaker_of(name)
        if not changed[name] and b.state == 'closed' and now - (b.heard or b.since) > FORGOTTEN then
            redis.call('HDEL', P .. 'breakers', name)
            redis.call('ZREM', P .. 'changes', name)
        end
    end
end
