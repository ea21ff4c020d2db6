-- One of so many targets under PREFIX, at random or one after the other (NEXT), with CODING in Accept-Encoding and TOKEN in Authorization where they are set.
local prefix, count = os.getenv("PREFIX"), tonumber(os.getenv("COUNT"))
local headers = {["Accept-Encoding"] = os.getenv("CODING"), Authorization = os.getenv("TOKEN") and "Bearer " .. os.getenv("TOKEN")}
local requests = {}
function init(args)
    math.randomseed(7)
    for i = 1, count do
        requests[i] = wrk.format("GET", prefix .. (os.getenv("NEXT") and i - 1 or math.random(0, count - 1)), headers)
    end
end
local at = 0
function request()
    at = at % #requests + 1
    return requests[at]
end
