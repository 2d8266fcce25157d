-- One worker's exchange about one host: it says what it has and wants, and is told what it may do.
-- Times are microseconds of this server's clock; the answers are durations, so that no other clock matters.
--
-- KEYS  1 turns: last_at, silent_until, settled_at, pace, pace_until, seen_at, offset
--       2 places: worker -> "permits demand heard_at"
--       3 window: until when each of the last slots may be used, as many as a window has
-- ARGV  1 worker  2 its interval between slots  3 slots wanted  4 how far ahead a slot may lie
--       5 permits of all workers  6 permits it holds  7 requests under way  8 permits it could use
--       9 whether Redis heard of it before  10 how long Redis keeps what a worker has and says that it does not hear of
--       11 how long the host asked it to wait (0: did not)  12 requests in a window (0: any)  13 length of a window
--       14 how long after its time a slot may reach the host  15 marks of slots that were not used  16 channel  17 host
-- Returns until the first slot, its mark in the window, how many slots, the time between them, until it is worth asking
-- again, until the pause ends, permits granted, permits to shrink to, whether other workers lack permits, whether there
-- are no others
local ROTATION = 2000000  -- how long those keep the permits that cannot be divided evenly
local LEAP = 60000000  -- time passes by itself between two questions
local ALONE = 5  -- times as far ahead may a slot lie that nobody else could want

local worker, channel, host = ARGV[1], ARGV[16], ARGV[17]
local interval, wanted, ahead, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local held, under_way, demand = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local was_known, lease, wait = ARGV[9] == '1', tonumber(ARGV[10]), tonumber(ARGV[11])
local most, window, late = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fields = { 'last_at', 'silent_until', 'settled_at', 'pace', 'pace_until', 'seen_at', 'offset' }
local state = redis.call('HMGET', KEYS[1], unpack(fields))
-- A clock that was set back goes on from where it was; what it lacks is forgotten when it is set forward by as much.
local seen_at, offset = tonumber(state[6] or now), tonumber(state[7] or 0)
local ahead_of_last = now + offset - seen_at
if ahead_of_last < 0 or ahead_of_last > math.max(LEAP, 0.9 * offset) then offset = math.max(0, seen_at - now) end
now = now + offset
-- No slot is given further ahead than this.
local last_at = math.min(tonumber(state[1] or 0), now + ALONE * ahead)
local silent_until = tonumber(state[2] or 0)
local settled_at = math.min(tonumber(state[3] or 0), now + lease)
local pace, pace_until = tonumber(state[4] or 0), math.min(tonumber(state[5] or 0), now + lease)

-- Each worker has learned what it has; the slowest is heard of again before its word is forgotten.
if interval >= pace or pace_until <= now then pace, pace_until = interval, now + lease end

if now + wait > silent_until and wait > 0 then
  silent_until = now + wait
  redis.call('PUBLISH', channel, string.format('%.0f %s', wait, host))
end

-- Permits
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

-- Slots
local alone = #order == 1
if alone then ahead = ALONE * ahead end

for mark in string.gmatch(ARGV[15], '%d+') do redis.call('LREM', KEYS[3], -1, mark) end

-- When the window lets the nth slot from now pass: a window's length after the one that is so many slots before it.
local length = most > 0 and redis.call('LLEN', KEYS[3]) or 0
local function opens(n)
  local before = length + n - 1 - most
  if most == 0 or before < 0 then return 0 end
  return math.min(tonumber(redis.call('LINDEX', KEYS[3], before)), now + lease + late) + window
end

local start, mark, count, again = 0, 0, 0, 0
if wanted > 0 and granted > under_way and silent_until <= now then
  local first = math.max(now, last_at + pace, opens(1))
  start, mark = first - now, first + late
  if start <= ahead then
    if most > 0 then wanted = math.min(wanted, most) end
    repeat
      last_at = first + count * pace
      count = count + 1
      if most > 0 then redis.call('RPUSH', KEYS[3], string.format('%.0f', last_at + late)) end
      local next_at = first + count * pace
    until count >= wanted or next_at > now + ahead or opens(count + 1) > next_at
    if most > 0 then
      redis.call('LTRIM', KEYS[3], -most, -1)
      redis.call('PEXPIRE', KEYS[3], math.ceil((window + ahead + late) / 1000) + 60000)
    end
  else
    again = start - ahead
  end
end
redis.call('HSET', KEYS[1], 'last_at', string.format('%.0f', last_at),
  'silent_until', string.format('%.0f', silent_until), 'settled_at', string.format('%.0f', settled_at),
  'pace', string.format('%.0f', pace), 'pace_until', string.format('%.0f', pace_until),
  'seen_at', string.format('%.0f', now), 'offset', string.format('%.0f', offset))
local last = math.max(last_at + pace, silent_until, settled_at) - now
redis.call('PEXPIRE', KEYS[1], math.ceil(math.max(0, last) / 1000) + 60000)
return {start, mark, count, pace, again, math.max(0, silent_until - now), granted, fair, unmet > 0 and 1 or 0,
  alone and 1 or 0}
