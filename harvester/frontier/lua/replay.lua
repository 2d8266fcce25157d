-- Brings dead letters back to life. ARGV: ids (msgpack). Returns how many.

local replayed = 0
for _, id in ipairs(cmsgpack.unpack(ARGV[1])) do
    local entry = redis.call('ZSCORE', P .. 'dead', id) and load(id)
    if entry then
        local outcome, reason = entry[OUTCOME], entry[REASON]
        raise(id, entry)
        remember(entry, 'replayed', outcome, reason)
        store(id, entry)
        make_ready(id, entry)
        replayed = replayed + 1
    end
end
finish()
return replayed
