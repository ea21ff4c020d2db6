-- Each request asks for a target that nobody asked for before.
local number

function init()
  math.randomseed(os.time())
  number = math.random(1, 1000000000) * 100000
end

function request()
  number = number + 1
  return wrk.format("GET", "/items/" .. number)
end
