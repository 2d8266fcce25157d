-- What is in some lines. ARGV: their keys (job \0 line). Returns how many requests are in each, and the bytes of all.

local numbers, bytes = {}, 0
for i, key in ipairs(ARGV) do
    numbers[i] = redis.call('ZCARD', P .. 'ready:' .. key)
    bytes = bytes + bytes_of(P .. 'ready:' .. key)
end
return { numbers, bytes }
