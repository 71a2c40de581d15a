-- For wrk: eight requests at once on each connection, four of them with a body.
init = function()
  local get = wrk.format("GET", "/get")
  local post = wrk.format("POST", "/echo", nil, string.rep("x", 100))
  eight = string.rep(get .. post, 4)
end

request = function()
  return eight
end
