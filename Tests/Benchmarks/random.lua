-- One of 100,000 stored answers at random. The requests are made before the measurement, so that wrk's own core is not the limit.
local requests = {}
function init(args)
    math.randomseed(os.time())
    for i = 1, 200000 do
        requests[i] = wrk.format("GET", "/items/" .. math.random(0, 99999))
    end
end
local at = 0
function request()
    at = at % #requests + 1
    return requests[at]
end
