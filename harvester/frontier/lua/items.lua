-- Job items: of each its latest attempt, and how many requests of that are in the frontier. Put in front of all scripts,
-- after common.lua.
--
-- An attempt is `open` while a request of it is here. Then it has `ended`: workers are told of it until one of them says
-- that the ledger has written it down. Then it is `over`, and remembered until the feed that began it can come no more.
-- The hash `items` has the attempt of each id, `belongs` the items ({id, attempt} each) of every request that has any.
-- The sorted set `ended` says when a worker was last told of an item, `over` until when one is remembered.
-- Of a request that Redis has lost, the items are forgotten: the ledger asks which are unknown here, and feeds those again.

do
    local attempts, before, changed = {}, {}, {} -- id -> the attempt, false: none; id -> its state in Redis; id -> true
    local belongs, joined, left = {}, {}, {} -- request -> its items, false: none; request -> true; requests

    local function read(key, ids, cache, heard)
        local unread = {}
        for _, id in ipairs(ids) do
            if cache[id] == nil then
                unread[#unread + 1] = id
            end
        end
        for first = 1, #unread, CHUNK do
            local last = math.min(#unread, first + CHUNK - 1)
            for i, packed in ipairs(redis.call('HMGET', P .. key, unpack(unread, first, last))) do
                local id = unread[first + i - 1]
                cache[id] = packed and cmsgpack.unpack(packed)
                heard[id] = cache[id] and cache[id].state
            end
        end
    end

    local function attempt_at(id)
        read('items', { id }, attempts, before)
        return attempts[id]
    end

    local function items_of(request)
        if belongs[request] == nil and items.are_used() then
            read('belongs', { request }, belongs, {})
        end
        return belongs[request]
    end

    local function open_attempt(item)
        local attempt = attempt_at(item[1])
        return attempt and attempt.state == 'open' and attempt.number == item[2] and attempt
    end

    function items.job_of(id)
        return string.match(id, '^[^:]*')
    end

    local function part(request)
        belongs[request], joined[request] = false, nil
        left[#left + 1] = request
        count_all('belonging', -1)
    end

    -- Whether an item was ever fed. A spider that feeds none does not pay for them.
    function items.are_used()
        if items.used == nil then
            items.used = redis.call('HGET', P .. 'counts', 'fed')
        end
        return items.used
    end

    -- Reads together what is asked for later: items with these ids, and those to which the requests belong.
    function items.preload(ids, requests)
        if items.are_used() then
            read('belongs', requests, belongs, {})
            for _, request in ipairs(requests) do
                for _, item in ipairs(belongs[request] or {}) do
                    ids[#ids + 1] = item[1]
                end
            end
        end
        read('items', ids, attempts, before)
    end

    -- Begins attempts that are newer than those that are known; returns them (id -> number).
    function items.begin(fed, deadline)
        local begun = {}
        for _, item in ipairs(fed) do
            local id, number = item[1], item[2]
            local known = attempt_at(id)
            if not known or known.number < number then
                attempts[id] = {
                    number = number, state = 'open', deadline = math.max(deadline, known and known.deadline or 0),
                    here = 0, requests = 0, records = 0, new = 0, rejected = 0, outcomes = {}, reasons = {},
                }
                changed[id] = true
                begun[id] = number
                items.used = true
                count_all('fed', 1)
            end
        end
        return begun
    end

    -- Of these the items whose attempt is open.
    function items.open_among(some)
        local open = {}
        for _, item in ipairs(some) do
            if open_attempt(item) then
                open[#open + 1] = item
            end
        end
        return open
    end

    -- The request is queued for these items, whose attempts are open.
    function items.join(request, its)
        belongs[request], joined[request] = its, true
        count_all('belonging', 1)
        for _, item in ipairs(its) do
            local attempt = attempts[item[1]]
            attempt.here, attempt.requests = attempt.here + 1, attempt.requests + 1
            changed[item[1]] = true
        end
    end

    -- The request has left the frontier. Whether it belonged to items.
    function items.leave(request, outcome, reason, records, rejected, new)
        local its = items_of(request)
        if not its then
            return false
        end
        part(request)
        for _, item in ipairs(its) do
            local attempt = open_attempt(item)
            if attempt then
                attempt.here = attempt.here - 1
                attempt.records, attempt.rejected = attempt.records + (records or 0), attempt.rejected + (rejected or 0)
                attempt.new = (attempt.new or 0) + (new or 0)
                attempt.outcomes[outcome] = (attempt.outcomes[outcome] or 0) + 1
                if (reason or '') ~= '' then
                    attempt.reasons[outcome] = attempt.reasons[outcome] or reason
                end
                changed[item[1]] = true
            end
        end
        return true
    end

    -- Redis has lost the request. Whether it belonged to items.
    function items.lose(request)
        local its = items_of(request)
        if not its then
            return false
        end
        part(request)
        for _, item in ipairs(its) do
            if open_attempt(item) then
                attempts[item[1]], changed[item[1]] = false, true
            end
        end
        return true
    end

    -- The ledger has written down how these attempts ended.
    function items.acknowledge(some)
        for _, item in ipairs(some) do
            local id, attempt = item[1], attempt_at(item[1])
            if attempt and attempt.state == 'ended' and attempt.number == item[2] then
                local late = attempt.deadline >= now and attempt.deadline -- the feed may come once more
                attempts[id] = late and { number = attempt.number, state = 'over', deadline = late }
                changed[id] = true
            end
        end
    end

    -- Items that have ended, which are told to a worker: at most so many.
    function items.tell(most, timeout)
        if most == 0 or not items.are_used() then
            return {}
        end
        local ids = redis.call('ZRANGEBYSCORE', P .. 'ended', '-inf', now - timeout, 'LIMIT', 0, most)
        local rows, told, gone = {}, {}, {}
        read('items', ids, attempts, before)
        for _, id in ipairs(ids) do
            local a = attempts[id]
            if a and a.state == 'ended' then
                rows[#rows + 1] = {
                    id, a.number, items.job_of(id), a.requests, a.records, a.rejected, a.outcomes, a.reasons, a.at, a.new or 0,
                }
                told[#told + 1], told[#told + 2] = now, id
            else
                gone[#gone + 1] = id
            end
        end
        in_chunks('ZADD', P .. 'ended', told)
        in_chunks('ZREM', P .. 'ended', gone)
        return rows
    end

    -- Of these the places of those whose attempt is neither open nor told to anybody.
    function items.unknown(some)
        local places, ids = {}, {}
        for i, item in ipairs(some) do
            ids[i] = item[1]
        end
        read('items', ids, attempts, before)
        for i, item in ipairs(some) do
            local attempt = attempts[item[1]]
            local same = attempt and attempt.number == item[2] and attempt.state
            if not (same == 'open' or (same == 'ended' and redis.call('ZSCORE', P .. 'ended', item[1]))) then
                places[#places + 1] = i
            end
        end
        return places
    end

    -- Whether others are there than so many open ones, and so many requests of items.
    function items.are_damaged(open, requests)
        local closed = redis.call('ZCARD', P .. 'ended') + redis.call('ZCARD', P .. 'over')
        return redis.call('HLEN', P .. 'items') - closed ~= open or redis.call('HLEN', P .. 'belongs') ~= requests
    end

    local function forget(ids)
        read('items', ids, attempts, before)
        for _, id in ipairs(ids) do
            attempts[id], changed[id] = false, true
        end
    end

    -- Those whose feeds can come no more, some at a time.
    function items.forget_over()
        local ids, over = redis.call('ZRANGEBYSCORE', P .. 'over', '-inf', '(' .. now, 'LIMIT', 0, CHUNK), {}
        in_chunks('ZREM', P .. 'over', ids)
        read('items', ids, attempts, before)
        for _, id in ipairs(ids) do
            if before[id] == 'over' then
                over[#over + 1] = id
            end
        end
        forget(over)
    end

    function items.forget_job(job)
        local ids = {}
        for _, id in ipairs(items.are_used() and redis.call('HKEYS', P .. 'items') or {}) do
            if items.job_of(id) == job then
                ids[#ids + 1] = id
            end
        end
        forget(ids)
    end

    -- Redis has forgotten the frontier: what is left of items is not to be trusted.
    function items.forget_all()
        redis.call('UNLINK', P .. 'items', P .. 'belongs', P .. 'ended', P .. 'over')
        for _, job in ipairs(redis.call('SMEMBERS', P .. 'scopes')) do
            redis.call('HDEL', P .. 'job:' .. job, 'items')
        end
        items.used = false
    end

    -- Ends the attempts of which no request is here any more, and writes all that has changed.
    function items.settle()
        local written, removed = {}, {}
        local into, out_of = { ended = {}, over = {} }, { ended = {}, over = {} }
        for id in pairs(changed) do
            local attempt, was = attempts[id], before[id]
            if attempt and attempt.state == 'open' and attempt.here == 0 then
                attempt.state, attempt.at = 'ended', wall
            end
            local is = attempt and attempt.state
            if (is == 'open') ~= (was == 'open') then
                count(items.job_of(id), 'items', is == 'open' and 1 or -1)
            end
            if out_of[was] and is ~= was then
                table.insert(out_of[was], id)
            end
            if into[is] then
                table.insert(into[is], is == 'ended' and 0 or attempt.deadline)
                table.insert(into[is], id)
            end
            if attempt then
                written[#written + 1], written[#written + 2] = id, cmsgpack.pack(attempt)
            else
                removed[#removed + 1] = id
            end
        end
        for _, place in ipairs({ 'ended', 'over' }) do
            in_chunks('ZREM', P .. place, out_of[place])
            in_chunks('ZADD', P .. place, into[place])
        end
        in_chunks('HDEL', P .. 'items', removed)
        in_chunks('HSET', P .. 'items', written)
        in_chunks('HDEL', P .. 'belongs', left)
        in_chunks('HSET', P .. 'belongs', pairs_of(joined, function(request)
            return cmsgpack.pack(belongs[request])
        end))
        changed, joined, left = {}, {}, {}
    end
end
