-- Requests for the targets PREFIX/0 to PREFIX/COUNT-1, at random, or in order with NEXT. With SPREAD, target N begins with /rM, where M is
-- N modulo SPREAD. CODING is the value of Accept-Encoding, TOKEN that of Authorization. The requests are made before the measurement, so
-- that wrk's core is not the limit.
local prefix, count, spread = os.getenv("PREFIX"), tonumber(os.getenv("COUNT")), tonumber(os.getenv("SPREAD") or "0")
local headers = {["Accept-Encoding"] = os.getenv("CODING"), Authorization = os.getenv("TOKEN") and "Bearer " .. os.getenv("TOKEN")}
local requests = {}
function init(args)
    math.randomseed(os.time())
    for i = 1, math.min(count, 200000) do
        local number = os.getenv("NEXT") and i - 1 or math.random(0, count - 1)
        requests[i] = wrk.format("GET", (spread > 0 and "/r" .. number % spread or "") .. prefix .. number, headers)
    end
end
local at = 0
function request()
    at = at % #requests + 1
    return requests[at]
end
