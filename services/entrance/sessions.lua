-- One JSON line when a session begins; HAProxy's own log has one when it ends.
-- What is printed was matched by the configuration before (host) or comes from the kernel (addresses).
local LINE = '{"time":"%s","event":"session","host":"%s","client":"%s:%d","frps":"127.0.0.1:%d"}\n'

core.register_action("say_session", { "http-res" }, function(txn)
  local now = core.now()
  local time = os.date("!%Y-%m-%dT%H:%M:%S", now.sec) .. string.format(".%03dZ", math.floor(now.usec / 1000))
  local host, port = txn:get_var("txn.host") or "", txn:get_var("txn.port") or 0
  -- not txn:log, which says everything a second time on standard error
  io.stdout:write(string.format(LINE, time, host, txn.f:src(), txn.f:src_port(), port))
  io.stdout:flush()
end)
