-- /items/0, /items/1, … up to COUNT, then the first again.
local count = tonumber(os.getenv("COUNT") or "1000000")
local at = -1
function request()
    at = (at + 1) % count
    return wrk.format("GET", "/items/" .. at)
end
