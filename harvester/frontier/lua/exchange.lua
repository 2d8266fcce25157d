-- One round trip of a worker: its operations, its heartbeat, requests that are due, new leases.
-- ARGV: worker, number of its last answer, leases wanted, most leases of a site, lease timeout in ms,
-- most deliveries, operations (msgpack), payloads, what it saw of sites (msgpack; may be empty), the version of the
-- breakers that it knows, the epoch that it knows (empty: none yet), a token for a new one, how many ended items it may be
-- told. An operation says which bytes of the payloads are its own.
--
-- An epoch is what a Redis that forgets forgets too. One that is gone, or is another one, is answered with 'forgot', and
-- one that no more knows of its last answer to the worker with 'back' and the number of that which it knows: nothing
-- is applied then.

local worker, known, wanted, per_site = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local timeout, max_deliveries = tonumber(ARGV[5]), tonumber(ARGV[6])
local operations, payloads = cmsgpack.unpack(ARGV[7]), ARGV[8]
local reports, known_shut = ARGV[9], tonumber(ARGV[10])
local known_epoch, new_epoch, most_ended = ARGV[11], ARGV[12], tonumber(ARGV[13])
local leases = P .. 'leases:' .. worker
local MOST_DUE = 500
local MOST_EVENTS = 20
local MOST_CHANGED = 200 -- breakers of which one answer tells
local MOST_LEASED_BYTES = 8 * 1024 * 1024 -- payloads of one answer; at least one goes
local MOST_PROBED = 50 -- sites that give probes
local MOST_NAMED = 20 -- lines of sites, when nothing else is left
local MOST_LOOKED_AT = 100
local MOST_SKIPPED = 100000 -- of which it is known why; the others are counted only

local accepted, duplicates, stale = 0, 0, 0
local state = redis.call('HMGET', P .. 'counts', 'number', 'seq', 'beat', 'since', 'epoch', 'fed')
local epoch = state[5]
if known_epoch ~= '' and epoch ~= known_epoch then
    return { cmsgpack.pack({ 'forgot' }), '' }
end
local answered = tonumber(redis.call('ZSCORE', P .. 'answered', worker) or 0)
local number = math.max(now * 1000, (state[1] or 0) + 1, known + 1)
-- Of a worker that was reaped long ago the answers are not known any more.
if known > 1 and answered < known and (answered > 0 or number - known < ANSWERED * 1000) then
    return { cmsgpack.pack({ 'back', answered }), '' }
end
seq = tonumber(state[2] or 0)
items.used = state[6]

local apply = {}

-- `its`: the items to which the request belongs, if any. `fed`: whether it is of a feed, of which each comes once.
local function queue(op, its, fed)
    local _, id, fingerprint, low, first, last, token, url, priority, job, site, delay, filtered = unpack(op)
    local is_new = (fed and not filtered) or see(scope_of(job), fingerprint, low)
    if not is_new then
        local entry = filtered and load(id)
        if filtered and not (entry and entry[TOKEN] == token) then
            duplicates = duplicates + 1
        else
            accepted = accepted + 1
        end
        return
    end
    seq = seq + 1
    local entry = { job, site, priority, seq, 0, 0, token, url, wall }
    local before = load(id)
    if not before then
        count(job, 'queued', 1)
    elseif is_dead(before) then
        raise(id, before)
        leave_targets(before)
    else -- it is here still, though its fingerprint was forgotten
        duplicates = duplicates + 1
        return
    end
    store(id, entry)
    bodies[id] = string.sub(payloads, first, last)
    place(id, entry, delay)
    accepted = accepted + 1
    if its then
        items.join(id, its)
    end
end

function apply.push(op)
    local its = op[14] and items.open_among(op[14])
    if its and #its == 0 then
        stale = stale + 1
    else
        queue(op, its)
    end
end

function apply.feed(op)
    local _, deadline, fed, pushes = unpack(op)
    local begun = now <= deadline and items.begin(fed, deadline) or {}
    for _, push in ipairs(pushes) do
        local its = {}
        for _, item in ipairs(push[14] or {}) do
            if begun[item[1]] == item[2] then
                its[#its + 1] = item
            end
        end
        if #its > 0 then
            queue(push, its, true)
        else
            stale = stale + 1
        end
    end
end

function apply.ended_ack(op)
    items.acknowledge(op[2])
end

-- The operations below end a lease.
local mine = {} -- ids of the operations that this worker holds

local function ended(id)
    if not mine[id] then
        stale = stale + 1
        return nil
    end
    mine[id] = nil
    local entry = load(id)
    unlease(worker, id, entry)
    return entry or nil
end

local any_dead

local function has_dead()
    if any_dead == nil then
        any_dead = redis.call('ZCARD', P .. 'dead') > 0
    end
    return any_dead
end

function apply.done(op)
    local _, id, outcome, rejected, records, reason, new = unpack(op)
    local entry = ended(id)
    if entry then
        if has_dead() then
            supersede(id, entry)
        end
        remove(id)
        items.leave(id, outcome, reason, records, rejected, new)
        count(entry[JOB], 'done', 1)
        count(entry[JOB], 'rejected', rejected)
        count_all('done:' .. outcome, 1)
    end
end

local function note_skipped(id, said)
    redis.call('HSET', P .. 'skipped', id, said)
    if redis.call('RPUSH', P .. 'skipped:order', id) > MOST_SKIPPED then
        redis.call('HDEL', P .. 'skipped', redis.call('LPOP', P .. 'skipped:order'))
    end
end

function apply.skip(op)
    local _, id, outcome, reason = unpack(op)
    local entry = ended(id)
    if entry then
        remove(id)
        items.leave(id, outcome, reason)
        local said = cmsgpack.pack({ wall, outcome, reason, entry[URL] })
        note_skipped(id, said)
        for _, fingerprint in ipairs(entry[TARGETS] or {}) do
            note_skipped(id_of(entry[JOB], fingerprint), said)
        end
        count(entry[JOB], 'skipped', 1)
        count_all('skipped:' .. outcome, 1)
    end
end

function apply.dead(op)
    local _, id, outcome, reason = unpack(op)
    local entry = ended(id)
    if not entry then
        return
    end
    local name = entry[SITE]
    local b = breaker_of(name)
    local is_bad = b and b.bad[outcome]
    if is_bad and b.state ~= 'closed' and park_failed(id, entry, outcome, reason) then
        return
    end
    bury(id, entry, outcome, reason)
    if is_bad and b.state == 'closed' and is_dead(entry) then
        b.died[#b.died + 1] = { id, now }
        while #b.died > MOST_DIED or b.died[1][2] < now - b.rules[WINDOW] do
            table.remove(b.died, 1)
        end
        changed[name] = true
    end
end

function apply.told(op)
    redis.call('HDEL', P .. 'alerts', op[2])
    redis.call('ZREM', P .. 'untold', op[2])
end

-- Where redirects lead. The target of one is looked up among the seen and remembered. When another request was there
-- before and ended well, this one is done; while that one is under way, it waits to see; when that one failed, it
-- goes there itself: many pages that lead to one login page or one page of a refusal are no copies of it.
local LEAST_LOOK, MOST_LOOK = 2000, 60000 -- how long until it looks again

-- True when the target is the request's own, or nobody's: then it is its own from now on.
local function owns(id, entry, fingerprint, low)
    local target = id_of(entry[JOB], fingerprint)
    if target == id then
        return true
    end
    for _, known in ipairs(entry[TARGETS] or {}) do
        if known == fingerprint then
            return true
        end
    end
    if not see(scope_of(entry[JOB]), fingerprint, low) then
        return false
    end
    entry[HISTORY] = entry[HISTORY] or {}
    entry[TARGETS] = entry[TARGETS] or {}
    table.insert(entry[TARGETS], fingerprint)
    absolve(entry)
    redis.call('HSET', P .. 'targets', target, id)
    return true
end

local function owner_of(target)
    return load(target) and target or redis.call('HGET', P .. 'targets', target)
end

-- What becomes of a request that leads to what another asked for: 'done', 'looks' (later) or 'goes'.
local function fate_of(id, entry, target)
    local owner = owner_of(target)
    local there = owner and load(owner)
    if not there then
        return redis.call('HEXISTS', P .. 'skipped', target) == 1 and 'goes' or 'done'
    elseif is_dead(there) or is_shut(entry[SITE]) then
        return 'goes'
    end
    for _ = 1, 10 do
        local onwards = redis.call('HGET', P .. 'follows', owner)
        owner = onwards and owner_of(onwards)
        if not owner then
            return 'looks'
        elseif owner == id then
            break
        end
    end
    return 'goes' -- in a circle
end

local function end_redirected(id, entry)
    remove(id)
    items.leave(id, 'ok')
    duplicates = duplicates + 1
    count(entry[JOB], 'done', 1)
    count_all('done:redirected', 1)
end

function apply.again(op)
    local _, id, first, last, url, site, priority, outcome, reason, delay, attempt, fingerprint, low = unpack(op)
    local entry = ended(id)
    if not entry then
        return
    end
    entry[SITE], entry[PRIORITY], entry[URL] = site, priority, url
    if fingerprint and not owns(id, entry, fingerprint, low) then
        local target = id_of(entry[JOB], fingerprint)
        local fate = fate_of(id, entry, target)
        if fate == 'done' then
            end_redirected(id, entry)
            return
        elseif fate == 'looks' then
            redis.call('HSET', P .. 'follows', id, target)
            delay = math.max(delay, LEAST_LOOK)
        end
    end
    if attempt then
        entry[ATTEMPTS] = entry[ATTEMPTS] + 1
        count_all('retried', 1)
    end
    local history = entry[HISTORY] or {}
    local event = history[#history]
    local waits_on = event and event[2] == 'redirect' and event[3] == outcome and event[4] == reason
    if attempt or not waits_on then
        remember(entry, attempt and 'retry' or 'redirect', outcome, reason)
    end
    store(id, entry)
    bodies[id] = string.sub(payloads, first, last)
    place(id, entry, delay)
end

-- The time of a request that waited has come.
local function come_due(id, entry, target)
    local fate = target and fate_of(id, entry, target)
    count(entry[JOB], 'waiting', -1)
    if fate == 'looks' then
        local history = entry[HISTORY]
        local since = wall - history[#history][1]
        place(id, entry, math.max(LEAST_LOOK, math.min(MOST_LOOK, since)))
        return
    end
    if target then
        redis.call('HDEL', P .. 'follows', id)
    end
    if fate == 'done' then
        end_redirected(id, entry)
    else
        make_ready(id, entry)
    end
end

function apply.release(op)
    local entry = ended(op[2])
    if entry then
        take_back_probe(op[2], entry)
        make_ready(op[2], entry)
    end
end

-- How many of n turns each gets, so that virtual times (ascending) come as even as they can.
local function shares(times, n)
    local members, used = 1, 0
    while members < #times and used + members * (times[members + 1] - times[members]) <= n do
        used = used + members * (times[members + 1] - times[members])
        members = members + 1
    end
    local each, rest = math.floor((n - used) / members), (n - used) % members
    local result = {}
    for i = 1, members do
        result[i] = times[members] - times[i] + each + (i <= rest and 1 or 0)
    end
    return result
end

-- Deals n turns out to the members of a round. take(member, n) returns how many it used and whether it has more.
local function deal(round, n, take)
    local taken, passed, served, n_passed = 0, {}, {}, 0
    while taken < n do
        local members, times = {}, {}
        local rows = redis.call('ZRANGE', round, 0, n - taken + n_passed - 1, 'WITHSCORES')
        for i = 1, #rows, 2 do
            if not passed[rows[i]] then
                members[#members + 1], times[#times + 1] = rows[i], tonumber(rows[i + 1])
            end
        end
        if #members == 0 then
            break
        end
        local later = {}
        for i, share in ipairs(shares(times, n - taken)) do
            local member = members[i]
            if share > 0 then
                local got, more = take(member, share)
                taken = taken + got
                if not more then
                    redis.call('ZREM', round, member)
                else
                    if got > 0 then
                        served[member] = true
                        later[#later + 1] = times[i] + got
                        later[#later + 1] = member
                    end
                    if got < share then
                        passed[member] = times[i] + got
                        n_passed = n_passed + 1
                    end
                end
            end
        end
        in_chunks('ZADD', round, later)
    end
    if n_passed > 0 then -- turns that a member could not use are not saved up, but for the next one if it got none
        local level
        local rows = redis.call('ZRANGE', round, 0, n_passed, 'WITHSCORES')
        for i = 1, #rows, 2 do
            local member = rows[i]
            if not level and (not passed[member] or served[member]) then
                level = tonumber(rows[i + 1])
            end
        end
        local later = {}
        for member, time in pairs(passed) do
            local least = level and (served[member] and level or level - 1)
            if level and time < least then
                later[#later + 1] = least
                later[#later + 1] = member
            end
        end
        in_chunks('ZADD', round, later)
    end
    return taken
end

local ids = {}

local function take_from_site(job, site, n)
    local most_held = string.sub(site, 1, 1) == SUSPECTS and 1 or per_site
    local most = math.min(n, most_held - held_of(worker, site, 0))
    if most <= 0 then
        return 0, true
    end
    local popped = redis.call('ZPOPMIN', P .. 'ready:' .. job .. '\0' .. site, most)
    local got = #popped / 2
    if got > 0 then
        for i = 1, #popped, 2 do
            ids[#ids + 1] = popped[i]
        end
        held_of(worker, site, got)
        count(job, 'ready', -got)
        count(job, 'leased', got)
    end
    return got, got == most
end

local function take_from_job(job, n)
    local sites = P .. 'sites:' .. job
    local got = deal(sites, n, function(site, share)
        return take_from_site(job, site, share)
    end)
    return got, redis.call('EXISTS', sites) == 1
end

-- A few requests of each of some sites that are half open; the others' turn comes with the next exchange. They are half
-- of the leases at most, so that sites which answer are asked meanwhile.
local probes = {}
local function take_probes()
    local room = math.ceil(wanted / 2)
    for _, name in ipairs(redis.call('SPOP', P .. 'probed', math.min(MOST_PROBED, room))) do
        local b = breaker_of(name)
        local lines = b and b.state == 'half_open' and parked_lines(name) or {}
        for _, each in ipairs(lines) do
            local most = math.min(b.rules[PROBES] - b.granted, room - #ids)
            if most > 0 then
                local popped = redis.call('ZPOPMIN', P .. 'ready:' .. each.key, most)
                local got = #popped / 2
                for i = 1, #popped, 2 do
                    ids[#ids + 1] = popped[i]
                    probes[popped[i]] = b.trial
                    send_probe(name, b, popped[i])
                end
                if got < most then
                    leave_parked(name, each.key)
                end
                held_of(worker, each.line, got)
                count(each.job, 'parked', -got)
                count(each.job, 'leased', got)
            end
        end
        if #lines > 0 and #ids >= room and b.granted < b.rules[PROBES] then
            redis.call('SADD', P .. 'probed', name)
        end
    end
end

-- Puts those back whose payloads do not fit into the answer.
local function put_back_what_is_too_much()
    local size, kept = 0, {}
    for i, id in ipairs(ids) do
        size = size + redis.call('HSTRLEN', P .. 'payloads', id)
        local entry = i > 1 and size > MOST_LEASED_BYTES and entries[id]
        if entry then
            held_of(worker, line_of(entry), -1)
            count(entry[JOB], 'leased', -1)
            make_ready(id, entry)
            take_back_probe(id, entry)
            probes[id] = nil
        else
            kept[#kept + 1] = id
        end
    end
    ids = kept
end

local function lease()
    take_probes()
    if #ids < wanted then
        deal(P .. 'jobs', wanted - #ids, take_from_job)
    end
    preload(ids)
    put_back_what_is_too_much()
    local leased, payload, scored = {}, {}, {}
    for first = 1, #ids, CHUNK do
        local last = math.min(#ids, first + CHUNK - 1)
        for i, body in ipairs(redis.call('HMGET', P .. 'payloads', unpack(ids, first, last))) do
            local id = ids[first + i - 1]
            local entry = entries[id]
            if body and entry then
                leased[#leased + 1] = { id, #body, entry[ATTEMPTS], entry[DELIVERIES], entry[JOB], entry[SITE],
                    probes[id] or 0 }
                payload[#payload + 1] = body
                scored[#scored + 1] = number
                scored[#scored + 1] = id
            else
                lose(id, 'leased')
            end
        end
    end
    in_chunks('ZADD', leases, scored)
    return leased, table.concat(payload)
end

-- First a command that a full Redis lets through: it refuses a script only at its first write,
-- and acknowledging makes room.
local growing = false
for _, op in ipairs(operations) do
    growing = growing or op[1] == 'push' or op[1] == 'again' or op[1] == 'feed'
end
if not growing then
    redis.call('HDEL', P .. 'counts', '')
end

redis.call('ZADD', P .. 'workers', now, worker)
redis.call('HDEL', P .. 'blocked', worker)
if not epoch then
    items.forget_all()
end
local steady_since = state[4] or now
if not state[3] or now - state[3] > timeout / 2 then
    steady_since = now
end

-- Leases of which the worker never heard: its last answer was lost, or a process before it had the same name.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '(' .. ARGV[2], '+inf')) do
    if known == 0 then
        redeliver(worker, id, max_deliveries)
    else
        take_back_probe(id, load(id))
        give_back(worker, id)
    end
end
flush()

if reports ~= '' then
    local number_of, rows = unpack(cmsgpack.unpack(reports))
    if number_of > tonumber(redis.call('HGET', P .. 'reported', worker) or 0) then
        redis.call('HSET', P .. 'reported', worker, number_of)
        for _, row in ipairs(rows) do
            hear(row)
        end
        forget_breakers()
    else -- nobody has judged them if the answer was lost
        for _, row in ipairs(rows) do
            judged[row[1]] = breaker_of(row[1]) and true or nil
        end
    end
end
raise_opened()
wake_breakers(timeout)

local named, ending = {}, {}
do
    local of_items, leaving = {}, {}
    local function note_items(its)
        for _, item in ipairs(its or {}) do
            of_items[#of_items + 1] = item[1]
        end
    end
    for _, op in ipairs(operations) do
        local kind = op[1]
        if kind == 'push' then
            named[#named + 1] = op[2]
            note_items(op[14])
        elseif kind == 'feed' then
            note_items(op[3])
        elseif kind == 'ended_ack' then
            note_items(op[2])
        elseif kind ~= 'told' then
            named[#named + 1], ending[#ending + 1] = op[2], op[2]
            if kind == 'done' or kind == 'skip' or kind == 'dead' then
                leaving[#leaving + 1] = op[2]
            end
        end
    end
    items.preload(of_items, leaving)
end
preload(named)
for first = 1, #ending, CHUNK do
    local last = math.min(#ending, first + CHUNK - 1)
    for i, held_since in ipairs(redis.call('ZMSCORE', leases, unpack(ending, first, last))) do
        mine[ending[first + i - 1]] = held_since
    end
end
for _, op in ipairs(operations) do
    apply[op[1]](op)
end
count_all('exchanges', 1)

local due = redis.call('ZRANGEBYSCORE', P .. 'waiting', '-inf', now, 'LIMIT', 0, MOST_DUE)
found(due, 'waiting')
in_chunks('ZREM', P .. 'waiting', due)
local followed = #due > 0 and redis.call('HMGET', P .. 'follows', unpack(due))
for i, id in ipairs(due) do
    if entries[id] then
        come_due(id, entries[id], followed[i])
    end
end
flush()

local leased, leased_payloads = {}, ''
if wanted > 0 then
    leased, leased_payloads = lease()
end
count_all('duplicates', duplicates)
epoch = epoch or new_epoch
redis.call('HSET', P .. 'counts', 'number', number, 'seq', seq, 'beat', now, 'since', steady_since, 'epoch', epoch)
redis.call('ZADD', P .. 'answered', number, worker)
keep_time()
save_breakers()
finish()

-- A function of its own, since a script has at most 200 local variables.
local function answer()
    -- Events that nobody told people of: a worker is given each again when it did not say in time that it did.
    local events = {}
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'untold', '-inf', now - TELLING, 'LIMIT', 0, MOST_EVENTS)) do
        local event = redis.call('HGET', P .. 'alerts', id)
        if event then
            events[#events + 1] = cmsgpack.unpack(event)
            redis.call('ZADD', P .. 'untold', now, id)
        else -- lost: nobody can tell of it
            redis.call('ZREM', P .. 'untold', id)
        end
    end

    local now_there = redis.call('HMGET', P .. 'counts', 'ready', 'waiting', 'leased', 'parked', 'lost')
    local next_due = redis.call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')
    local ready, waiting, leased_total = tonumber(now_there[1] or 0), tonumber(now_there[2] or 0), tonumber(now_there[3] or 0)
    local parked = tonumber(now_there[4] or 0)
    local latest = last_change()
    local anew = known_shut > latest -- Redis has forgotten what it told
    if anew then
        known_shut = 0
    end
    local changes = {} -- of breakers since the version that the worker knows; more come with the next answer
    local rows = redis.call('ZRANGEBYSCORE', P .. 'changes', '(' .. known_shut, '+inf', 'WITHSCORES', 'LIMIT', 0, MOST_CHANGED)
    for i = 1, #rows, 2 do
        local b = breaker_of(rows[i])
        changes[#changes + 1] = { rows[i], b and b.state or 'closed', b and b.trial or 0, b and b.due or 0 }
    end
    known_shut = tonumber(rows[#rows] or known_shut)

    -- When nothing else is left: some of the sites, of each how many are parked and its breaker's state; and for how long
    -- all that are not held have been left alone, at least.
    local all_parked, alone = {}, 0
    if parked > 0 and ready + waiting + leased_total == 0 then
        local named_sites = {}
        for _, key in ipairs(redis.call('SRANDMEMBER', P .. 'parked', MOST_NAMED)) do
            local _, line = job_and_line(key)
            local name = site_of_line(line)
            if not named_sites[name] then
                named_sites[name] = true
                local b = breaker_of(name)
                all_parked[#all_parked + 1] = { name, count_parked(name), b and b.state or 'open' }
            end
        end
        alone = now -- all are held
        local last = redis.call('ZREVRANGEBYSCORE', P .. 'alone', '+inf', '(0', 'WITHSCORES', 'LIMIT', 0, MOST_LOOKED_AT)
        for i = 1, #last, 2 do
            local is_parked = redis.call('EXISTS', P .. 'parked:' .. last[i]) == 1
            if is_parked or i == 2 * MOST_LOOKED_AT - 1 then
                alone = now - last[i + 1]
                break
            end
        end
    end
    local to_judge = {}
    for name in pairs(judged) do
        to_judge[#to_judge + 1] = shown(name)
    end
    -- Looked at when there is time: when nothing was found for it.
    local damaged = wanted > 0 and #leased == 0 and is_damaged()
    return {
        cmsgpack.pack({
            number,
            now,
            accepted,
            duplicates,
            stale,
            ready,
            waiting,
            leased_total,
            parked,
            tonumber(next_due[2] or 0),
            known_shut,
            changes,
            anew,
            all_parked,
            alone,
            events,
            epoch,
            tonumber(now_there[5] or 0),
            damaged,
            went_back,
            items.tell(most_ended, timeout),
            to_judge,
            redis.call('ZCARD', leases),
            leased,
        }),
        leased_payloads,
    }
end

return answer()
