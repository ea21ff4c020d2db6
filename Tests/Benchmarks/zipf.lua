-- Targets of 100,000 by Zipf's law (s = 0.99), with the fields of apps: ten kinds of User-Agent, Accept, Accept-Language. With NEW=10 one
-- request in ten has a target that no request had before. Requests are made before the measurement, so that wrk's core is not the limit.
local targets, exponent, made = 100000, 0.99, 100000
local new = tonumber(os.getenv("NEW") or "0")
local requests, fields = {}, {}
local number = 0

local function fill()
    local agents = {}
    for version = 1, 5 do
        agents[#agents + 1] = "Example/" .. version .. ".2 (iPhone; iOS 18." .. version .. "; Scale/3.00)"
        agents[#agents + 1] = "Example-Android/" .. version .. ".2 okhttp/4.1" .. version .. ".0"
    end
    local languages = { "en-GB,en;q=0.9", "de-DE,de;q=0.9,en;q=0.5", "fr-FR,fr;q=0.9" }
    for i = 1, 30 do
        fields[i] = {
            ["Accept"] = "application/json, */*;q=0.5",
            ["Accept-Language"] = languages[i % 3 + 1],
            ["User-Agent"] = agents[i % 10 + 1],
        }
    end
end

function init(args)
    fill()
    math.randomseed(os.time())
    number = math.random(1, 1000000000) * 100000
    local sums, sum = {}, 0
    for rank = 1, targets do
        sum = sum + 1 / rank ^ exponent
        sums[rank] = sum
    end
    for i = 1, made do
        local wanted, low, high = math.random() * sum, 1, targets
        while low < high do
            local middle = math.floor((low + high) / 2)
            if sums[middle] < wanted then low = middle + 1 else high = middle end
        end
        requests[i] = wrk.format("GET", "/items/" .. (low - 1), fields[math.random(#fields)])
    end
end

local at = 0
function request()
    at = at % made + 1
    if new > 0 and at % new == 0 then
        number = number + 1
        return wrk.format("GET", "/new/" .. number, fields[at % #fields + 1])
    end
    return requests[at]
end
