-- A request wants to find out whether a tier of proxies is of use again. ARGV: the name of the tier's breaker.
-- Returns the number of the trial whose probe it is; 0: no further one is wanted now.

local name = ARGV[1]
local b = breaker_of(name)
if not b or b.state ~= 'half_open' or b.granted >= b.rules[PROBES] then
    return 0
end
b.granted = b.granted + 1
changed[name] = true
save_breakers()
return b.trial
