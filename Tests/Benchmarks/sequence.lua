-- PREFIX/0, PREFIX/1, … up to COUNT, then the first again. Without COUNT, targets that no request had before.
local prefix, count, at = os.getenv("PREFIX") or "/items/", tonumber(os.getenv("COUNT") or "0"), -1

function init()
    math.randomseed(os.time())
    if count == 0 then at = math.random(1, 1000000000) * 100000 end
end

function request()
    at = at + 1
    if count > 0 then at = at % count end
    return wrk.format("GET", prefix .. at)
end
