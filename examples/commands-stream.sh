#!/usr/bin/env bash
# Runs commands in a sandbox with curl alone; each line of output is one JSON object.
#
#   export E2B_API_URL=http://127.0.0.1:3000
#   export E2B_API_KEY=e2b_...          # `cargo xtask serve` prints it
#   bash commands-stream.sh
#
# Expected output:
#   -- a command in a sandbox of its own
#   {"type":"start","pid":PID,"sandbox_id":"ID"}
#   {"type":"stdout","data":"1\n"}
#   {"type":"stdout","data":"2\n"}
#   {"type":"stdout","data":"3\n"}
#   {"type":"end","exit_code":0}
#   -- one that runs out of time
#   {"type":"start","pid":PID,"sandbox_id":"ID"}
#   {"type":"stdout","data":"waiting\n"}
#   {"type":"end","exit_code":-1}
#   -- two in the same sandbox
#   {"type":"stdout","data":"kept between commands\n"}
#   -- gone: 204
set -euo pipefail

api() {
  curl --silent --show-error --fail-with-body --no-buffer \
    --header "X-API-Key: $E2B_API_KEY" --header "Content-Type: application/json" \
    "$E2B_API_URL$1" "${@:2}"
}

echo "-- a command in a sandbox of its own"
api /commands --data '{"cmd": "seq 1 3"}'

echo "-- one that runs out of time"
api /commands --data '{"cmd": "echo waiting; sleep 600", "timeout_ms": 300}'

echo "-- two in the same sandbox"
sandbox=$(api /v2/sandboxes --data '{"templateID": "base", "timeout": 120}' | jq --raw-output .sandboxID)
api /commands --data '{"cmd": "echo kept between commands > note", "sandbox_id": "'"$sandbox"'"}' > /dev/null
api /commands --data '{"cmd": "cat note", "sandbox_id": "'"$sandbox"'"}' | grep stdout

echo "-- gone: $(api "/sandboxes/$sandbox" --request DELETE --write-out '%{http_code}')"
