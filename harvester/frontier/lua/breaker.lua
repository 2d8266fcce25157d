-- The breakers of sites; put in front of the scripts that change them, after common.lua.
--
-- A breaker has one of four states. closed: its site is asked. open: its site is left alone until `due`, and its
-- requests are parked. half_open: a few of them, the probes, are let out. held: a person wants the site left alone.
-- Its name is that of the site, or site \0 tier for a tier of proxies there; then nothing is parked, requests go past it,
-- and workers ask for its probes (breaker_probe.lua). Each time that it is half open is a trial with a number; only its
-- own probes decide it. All breakers are in the hash `breakers`; `shut` has those that are not closed, with the time at
-- which they may change, `alone` since when they are not (0: held), `probing` the half open ones of sites, `probed` those
-- of them that may give probes. `changes` has the version that each came with: a worker asks for what is newer than what
-- it knows. All sites of a crawl may be left alone, so a script is about some of them, however many there are.
-- Each change is kept in `events` until a worker has told people of it; `untold` says when one was last given to a worker.
-- `risen` has the dead letters that openings bring back.

local WINDOW, LEAST, RATIO, REFUSALS, FAILURES, OPEN, MOST_OPEN, PROBES, SAMPLE = 1, 2, 3, 4, 5, 6, 7, 8, 9 -- of rules
local BUCKETS = 10 -- of a window
local MOST_DIED = 200 -- dead letters that an opening brings back
local USUAL = 20 -- samples that make up what is usual
local MOST_WOKEN = 50 -- breakers whose time has come, of one script
local MOST_RISEN = 200 -- dead letters that one script brings back
local FORGOTTEN = 24 * 3600 * 1000 -- a closed breaker that was not heard of for so long says nothing any more

local breakers, changed = {}, {}
local made = {} -- ids of the events of this script

local function breaker_of(name)
    if breakers[name] == nil then
        local packed = redis.call('HGET', P .. 'breakers', name)
        local b = packed and cmsgpack.unpack(packed)
        if b then
            b.trial = b.trial or 1 -- trials were not numbered once
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

local function index_parked()
    for _, each in ipairs(parked_lines()) do
        redis.call('SADD', P .. 'parked:' .. site_of_line(each.line), each.key)
    end
end

-- Begins to keep what an earlier version of this program did not.
local function keep_indexes()
    if redis.call('HSETNX', P .. 'counts', 'indexed', 1) == 0 then
        return
    end
    index_parked()
    for number, name in ipairs(redis.call('ZRANGE', P .. 'shut', 0, -1)) do
        local packed = redis.call('HGET', P .. 'breakers', name)
        local b = packed and cmsgpack.unpack(packed)
        if not tier_of(name) then
            redis.call('ZADD', P .. 'alone', b and b.state ~= 'held' and b.opened or 0, name)
        end
        redis.call('ZADD', P .. 'changes', 'NX', number, name)
        if b and b.state == 'half_open' and not tier_of(name) then
            redis.call('SADD', P .. 'probed', name)
        end
    end
end

local function version()
    local last = redis.call('ZRANGE', P .. 'changes', -1, -1, 'WITHSCORES')
    return tonumber(last[2] or 0)
end

-- The version is a time, so that one which a killed Redis has forgotten does not come again for another change.
local function tell_workers(name)
    redis.call('ZADD', P .. 'changes', math.max(now, version() + 1), name)
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
        b = { state = 'closed', since = now, opens = 0, trial = 0, granted = 0, good = 0, blank = 0, cause = '', said = '' }
        b.window, b.died, b.bad, b.kinds, b.drift = {}, {}, {}, {}, { 0, 0, 0, 0, 0 }
        b.refusals, b.failures, b.rules = 0, 0, rules
        breakers[name] = b
    end
    if b.rules[WINDOW] ~= rules[WINDOW] then
        b.window = {}
    end
    b.rules = rules
    changed[name] = true
    return b
end

-- Changes the state, and what is parked with it. `due`: when it may change by itself; nil: it does not.
local function change(name, b, to, due, by)
    flush()
    local tried, failed, outcomes = in_window(b)
    local from, tier = b.state, tier_of(name)
    local site = tier and string.sub(name, 1, -#tier - 2) or name
    if from == 'closed' then
        b.opened = now
        shut[name] = true
        if not tier then
            park(site)
        end
    end
    local left = tier and 0 or count_parked(site) + count_leased(site)
    if to == 'closed' then
        b.closed, b.window, b.died, b.refusals, b.failures = now, {}, {}, 0, 0
        shut[name] = false
        redis.call('ZREM', P .. 'shut', name)
        redis.call('ZREM', P .. 'alone', name)
        if not tier then
            unpark(site)
        end
    else
        redis.call('ZADD', P .. 'shut', due or '+inf', name)
        if not tier then
            redis.call('ZADD', P .. 'alone', to == 'held' and 0 or b.opened or now, name)
        end
    end
    local probing = to == 'half_open' and not tier and 'SADD' or 'SREM'
    redis.call(probing, P .. 'probing', name)
    redis.call(probing, P .. 'probed', name)
    tell_workers(name)
    b.state, b.since, b.due = to, now, due
    if to == 'half_open' then
        b.trial = b.trial + 1
    end
    b.granted, b.good, b.blank = 0, 0, 0
    changed[name] = true
    local id = string.format('%.0f', now) .. ' ' .. string.gsub(name, '%z', ' ') .. ' ' .. to
    redis.call('HSET', P .. 'events', id, cmsgpack.pack({
        id = id, site = site, tier = tier or '', from = from, to = to, at = now, cause = b.cause, by = by, due = due or 0,
        tried = tried, failed = failed, outcomes = outcomes, row = math.max(b.refusals, b.failures), said = b.said,
        left = left, window = b.rules[WINDOW], opened = b.opened or 0, lost = b.lost or {}, drift = b.drift,
    }))
    redis.call('ZADD', P .. 'untold', now - TELLING, id) -- the next that asks may tell of it
    made[#made + 1] = id
end

local function open(name, b, cause, by)
    local again = b.state == 'half_open' or (b.closed and now - b.closed < b.rules[WINDOW])
    b.opens = again and b.opens + 1 or 1
    b.cause = cause
    local died = b.state == 'closed' and b.died or {}
    change(name, b, 'open', now + math.min(b.rules[OPEN] * 2 ^ math.min(b.opens - 1, 30), b.rules[MOST_OPEN]), by)
    for _, each in ipairs(died) do
        if each[2] > now - b.rules[WINDOW] then
            redis.call('RPUSH', P .. 'risen', each[1])
        end
    end
    b.died = {}
end

-- Whether far more pages than usual have nothing in them. While it is not known what is usual, only pages that do not
-- look as they should are counted.
local function has_drifted(b, pages, blank, moved)
    local d, sample = b.drift, b.rules[SAMPLE]
    d[1], d[2], d[3] = d[1] + pages, d[2] + blank, d[3] + moved
    if sample == 0 or d[1] < sample then
        return false
    end
    if d[4] < sample then
        if d[3] > 0.8 * d[1] then
            return true
        end
    else
        local usual = d[4] - d[5] -- with something in them
        local expected = d[1] * usual / d[4]
        if expected >= 10 and d[1] - d[2] - d[3] < 0.2 * expected then
            return true
        end
        if expected < 10 and d[1] < USUAL * sample then
            return false -- too few to say
        end
    end
    d[4], d[5] = d[4] + d[1], d[5] + d[2] + d[3]
    if d[4] > USUAL * sample then
        d[4], d[5] = d[4] / 2, d[5] / 2
    end
    d[1], d[2], d[3] = 0, 0, 0
    return false
end

-- Fields that nearly all records had, and nearly none of the last ones has: {kind, field} each.
local function lost_fields(b, kinds)
    local lost, sample = {}, b.rules[SAMPLE]
    for kind, seen in pairs(kinds) do
        local known = b.kinds[kind] or { 0, {}, {} } -- records and fields of this sample, share of each field usually
        b.kinds[kind] = known
        known[1] = known[1] + seen[1]
        for field, number in pairs(seen[2]) do
            known[2][field] = (known[2][field] or 0) + number
        end
        if sample > 0 and known[1] >= sample then
            for field, number in pairs(known[2]) do
                local share, usual = number / known[1], known[3][field]
                if usual and usual > 0.8 and share < 0.1 then
                    lost[#lost + 1] = { kind, field }
                else
                    known[3][field] = usual and 0.7 * usual + 0.3 * share or share
                end
            end
            known[1], known[2] = 0, {}
        end
    end
    return lost
end

local function judge(name, b, pages, blank, moved, kinds)
    local rules = b.rules
    local tried, failed = in_window(b)
    local drifted, lost = has_drifted(b, pages, blank, moved), lost_fields(b, kinds)
    b.lost = lost
    if rules[REFUSALS] > 0 and b.refusals >= rules[REFUSALS] then
        open(name, b, 'refusals')
    elseif rules[FAILURES] > 0 and b.failures >= rules[FAILURES] then
        open(name, b, 'failures')
    elseif rules[LEAST] > 0 and tried >= rules[LEAST] and failed > rules[RATIO] * tried then
        open(name, b, 'ratio')
    elseif drifted then
        open(name, b, 'drift')
        b.drift[1], b.drift[2], b.drift[3] = 0, 0, 0
    elseif #lost > 0 then
        open(name, b, 'fields')
    end
end

-- Whether the probes' records have the fields again; nil while there are none.
local function has_fields(b, proved)
    local answer
    for _, each in ipairs(b.lost) do
        local seen = proved[each[1]]
        if seen and seen[1] > 0 then
            if (seen[2][each[2]] or 0) == 0 then
                return false
            end
            answer = true
        end
    end
    return answer
end

-- probes: their trial; those that did well, those that failed, pages of them with something in them, and with nothing.
-- Answers to requests that were sent before, also to probes of an earlier trial, say nothing.
local function judge_probes(name, b, probes, proved)
    local trial, well, ill, full, blank = unpack(probes)
    if trial ~= b.trial then
        return
    end
    local done, good
    if b.cause == 'fields' then
        local has = has_fields(b, proved)
        done, good = has ~= nil, has
    else
        if b.cause == 'drift' then
            well, b.blank = full, b.blank + blank
        end
        b.good = b.good + well
        local all = b.rules[PROBES]
        if not tier_of(name) and b.granted < all and count_parked(name) == 0 then
            all = b.granted
        end
        local answered = b.good + b.blank
        done, good = answered > 0 and answered >= all, b.good > 0
    end
    if ill > 0 or (done and not good) then
        open(name, b, b.cause)
    elseif done then
        change(name, b, 'closed')
    end
end

-- Takes in what a worker saw of a site.
local function hear(report)
    local name, rules, outcomes, bad, broken, refusals, failures, said, pages, probes, kinds, proved = unpack(report)
    local b = found_or_made(name, rules)
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
    b.heard = now
    if b.state == 'closed' then
        judge(name, b, pages[1], pages[2], pages[3], kinds)
    elseif b.state == 'half_open' then
        judge_probes(name, b, probes, proved)
    end
end

-- Lets those out whose time has come. `patience`: how long probes may take before others are sent.
local function wake_breakers(patience)
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. 'shut', '-inf', now, 'LIMIT', 0, MOST_WOKEN)) do
        local b = breaker_of(name)
        if not b or b.state == 'closed' then
            ask_again(name)
        else
            local again = now + math.max(patience, b.rules[OPEN])
            if b.state == 'open' then
                change(name, b, 'half_open', again)
            else
                b.granted, b.due = b.good + b.blank, again -- those that answered count on
                changed[name] = true
                redis.call('ZADD', P .. 'shut', again, name)
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
