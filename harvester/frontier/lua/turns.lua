-- One worker's exchange about one host: it says what it has and wants; it is told what it may do.
-- Times are microseconds of this server's clock; the answers are durations, so that no other clock matters.
--
-- KEYS  1 turns: next_at, silent_until, settled_at   2 places: worker -> "granted demand heard_at"
-- ARGV  1 worker  2 interval between turns  3 turns wanted  4 how far ahead a turn may lie  5 places of all workers
--       6 places it holds  7 requests under way  8 places it could use  9 whether it was heard of before
--       10 how long a silent worker keeps its places  11 how long the host asked it to wait (0: did not)
--       12 channel  13 host
-- Gives until the first turn, how many turns, until it is worth asking again, until the silence ends,
-- places granted, places to come down to, whether other workers lack places
local ROTATION = 2000000  -- how long those keep the places that cannot be divided evenly

local worker, channel, host = ARGV[1], ARGV[12], ARGV[13]
local interval, wanted, ahead, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local held, under_way, demand = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local was_known, lease, wait = ARGV[9] == '1', tonumber(ARGV[10]), tonumber(ARGV[11])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local state = redis.call('HMGET', KEYS[1], 'next_at', 'silent_until', 'settled_at')
-- No turn is given further ahead than this; a clock that was set back must not stop the host for long.
local next_at = math.min(tonumber(state[1] or 0), now + ahead + interval)
local silent_until = tonumber(state[2] or 0)
local settled_at = math.min(tonumber(state[3] or 0), now + lease)

if now + wait > silent_until and wait > 0 then
  silent_until = now + wait
  redis.call('PUBLISH', channel, string.format('%.0f %s', wait, host))
end

-- Places
local order, demands, others, unmet, had = {}, {}, 0, 0, nil
local entries = redis.call('HGETALL', KEYS[2])
for i = 1, #entries, 2 do
  local name = entries[i]
  local granted, wants, heard_at = string.match(entries[i + 1], '^(%d+) (%d+) (%d+)$')
  if math.abs(now - heard_at) >= lease then
    redis.call('HDEL', KEYS[2], name)
  elseif name == worker then
    had = tonumber(granted)
  else
    others = others + granted
    unmet = unmet + math.max(0, wants - granted)
    order[#order + 1], demands[name] = name, tonumber(wants)
  end
end
-- Forgotten during an outage: so are others perhaps, whose requests are still under way.
if was_known and not had and demand > 0 then settled_at = now + lease end

order[#order + 1], demands[worker] = worker, demand
table.sort(order)
local first, left, share, gave = math.floor(now / ROTATION) % #order, limit, {}, true
while left > 0 and gave do
  gave = false
  for i = 0, #order - 1 do
    local name = order[(first + i) % #order + 1]
    if left > 0 and (share[name] or 0) < demands[name] then
      share[name], left, gave = (share[name] or 0) + 1, left - 1, true
    end
  end
end
local fair, granted = share[worker] or 0, held
if now >= settled_at then granted = math.max(held, math.min(fair, limit - others)) end
if unmet == 0 then fair = math.max(fair, granted) end
if unmet > 0 and granted < (had or 0) then redis.call('PUBLISH', channel, '0 ' .. host) end
if granted > 0 or demand > 0 then
  redis.call('HSET', KEYS[2], worker, string.format('%d %d %.0f', granted, demand, now))
  redis.call('PEXPIRE', KEYS[2], math.ceil(2 * lease / 1000))
else
  redis.call('HDEL', KEYS[2], worker)
end

-- Turns
local start, count, again = 0, 0, 0
if wanted > 0 and granted > under_way and silent_until <= now then
  start = math.max(now, next_at) - now
  if start <= ahead then
    count = math.min(wanted, math.floor((ahead - start) / interval) + 1)
    next_at = now + start + count * interval
  else
    again = start - ahead
  end
end
redis.call('HSET', KEYS[1], 'next_at', string.format('%.0f', next_at),
  'silent_until', string.format('%.0f', silent_until), 'settled_at', string.format('%.0f', settled_at))
local last = math.max(next_at, silent_until, settled_at) - now
redis.call('PEXPIRE', KEYS[1], math.ceil(math.max(0, last) / 1000) + 60000)
return {start, count, again, math.max(0, silent_until - now), granted, fair, unmet > 0 and 1 or 0}
