#!/usr/bin/env bash
# `sam build`, `sam local invoke` and `sam local start-api` in containers for real: in a Docker engine of its own, which is
# started and ended here, with ministack and the demo gateway on its bridge. Needs root, Python 3.13, .venv and .tools.
# Nothing of this touches another engine, the firewall, or an account.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
cd "$here/../.."
export SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
if command -v pyenv >/dev/null && pyenv prefix 3.13 >/dev/null 2>&1; then PATH=$(pyenv prefix 3.13)/bin:$PATH; fi
python3.13 -c '' || { echo "python3.13 is not here"; exit 1; }
sam=$PWD/.tools/sam/bin/sam
python=$PWD/.venv/bin/python

# A short path: the engine's socket lies in it, and a socket's path has at most 107 letters.
work=$(mktemp -d)
pids=()
cleanup() {
  local result=$?
  set +e
  # By TERM and in turn: containers have a place of their own among the processes, and only the engine can end them.
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[i]}" 2>/dev/null && timeout 20 tail --pid="${pids[i]}" -f /dev/null
  done
  umount "$work"/exec/netns/* 2>/dev/null
  ip link delete docker0 2>/dev/null
  rm -rf "$work"
  exit "$result"
}
trap cleanup EXIT

fail() {
  echo "FAILED: $1"
  for log in "$work"/*.log; do
    [[ -e $log ]] || continue
    echo "--- $(basename "$log")"
    tail -n 25 "$log"
  done
  exit 1
}
until_listening() { # host port
  for ((n = 0; n < 1200; n++)); do
    (echo >"/dev/tcp/$1/$2") 2>/dev/null && return
    sleep 0.1
  done
  fail "nothing listens on $1:$2"
}
expect() { # what, pattern, answer
  [[ $3 == *"$2"* ]] || fail "$1: expected $2 in: $3"
  echo "ok: $1"
}
free_port() { python3.13 -c 'import socket, sys; s = socket.create_server((sys.argv[1], 0)); print(s.getsockname()[1])' "$1"; }

if ! command -v dockerd >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  timeout 120 apt-get -qq update || true # an older list will do
  timeout 600 apt-get -qq -y -o DPkg::Lock::Timeout=120 --no-install-recommends install docker.io >/dev/null ||
    fail "docker.io could not be installed"
fi
export DOCKER_HOST=unix://$work/d.sock
dockerd -H "$DOCKER_HOST" --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/d.pid" \
  --iptables=false --ip-masq=false --ip-forward=false >"$work/dockerd.log" 2>&1 </dev/null &
pids+=($!)
for ((n = 0; n < 300; n++)); do
  docker version >/dev/null 2>&1 && break
  kill -0 "${pids[0]}" 2>/dev/null || break
  sleep 0.1
done
docker version >/dev/null 2>&1 || fail "the engine did not start"
timeout 600 "$here/base-image.sh" >"$work/base-image.log" 2>&1 || fail "the base image was not made"
timeout 600 "$sam" build --config-file infra/samconfig.toml --no-cached --build-dir "$work/build" >"$work/build.log" 2>&1 || fail "sam build"
template=$work/build/template.yaml

# Containers cannot see the host's loopback; the bridge's address is what both sides share.
bridge=$(ip -4 -o address show docker0 | sed 's/.*inet \([0-9.]*\).*/\1/')
aws_port=$(free_port "$bridge") gateway_port=$(free_port "$bridge") api_port=$(free_port 127.0.0.1)
mkdir "$work/ministack"
env -i PATH="$PWD/.tools/ministack/bin:/usr/bin:/bin" HOME="$work/ministack" TMPDIR="$work/ministack" BIND_HOST="$bridge" \
  GATEWAY_PORT="$aws_port" IOT_MTLS_ENABLED=0 ministack >"$work/ministack.log" 2>&1 </dev/null &
pids+=($!)
"$python" -m uvicorn --factory infra.local.demo_gateway:app --host "$bridge" --port "$gateway_port" --no-access-log \
  >"$work/gateway.log" 2>&1 </dev/null &
pids+=($!)
until_listening "$bridge" "$aws_port"
until_listening "$bridge" "$gateway_port"
queue=$("$python" "$here/emulated_resources.py" "http://$bridge:$aws_port")

host=host.docker.internal
sed -e "s|http://$host:11434|http://$host:$gateway_port|" -e "s|http://$host:4566/.*/jobs|${queue/$bridge/$host}|" \
  -e "s|http://$host:4566|http://$host:$aws_port|" -e "s|http://172.17.0.1:4566|http://$bridge:$aws_port|" "$here/environment.json" >"$work/environment.json"
local_options=(--template "$template" --config-file "$PWD/infra/samconfig.toml" --env-vars "$work/environment.json"
  --skip-pull-image --add-host "$host:$bridge")

# `sam local invoke` ends with 0 whatever the function did, so only its output tells.
answer=$(timeout 300 "$sam" local invoke ConversationsFunction -e infra/events/health.json "${local_options[@]}" 2>"$work/invoke.log") || fail "sam local invoke"
expect "sam local invoke: health" '"statusCode": 200' "$answer"
answer=$(timeout 300 "$sam" local invoke ChatFunction -e infra/events/chat.json "${local_options[@]}" 2>"$work/invoke-chat.log") || fail "sam local invoke"
expect "sam local invoke: a turn on the client's transcript" '\"reply\":' "$answer"

"$sam" local start-api --port "$api_port" "${local_options[@]}" >"$work/start-api.log" 2>&1 </dev/null &
pids+=($!)
until_listening 127.0.0.1 "$api_port"
call() { # method path [body]
  curl -sS -m 180 -X "$1" "http://127.0.0.1:$api_port$2" -H 'Authorization: Bearer sample-token' \
    -H 'Content-Type: application/json' ${3+-d "$3"} -w ' %{http_code}' 2>&1
}
expect "sam local start-api: health" '{"ok":true} 200' "$(call GET /healthz)"
created=$(call POST /api/conversations '{}')
expect "a conversation is made" ' 201' "$created"
id=$(sed 's/.*"id":"\([^"]*\)".*/\1/' <<<"$created")
expect "a turn of it is answered" '"reply":' "$(call POST /api/chat "{\"conversationId\":\"$id\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}")"
streamed=$(call POST /api/chat "{\"conversationId\":\"$id\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Again\"}]}")
expect "another comes as one whole document of events" 'event: done' "$streamed"
expect "the replies are stored" '"role":"assistant"' "$(call GET "/api/conversations/$id")"
expect "the conversation is deleted" ' 200' "$(call DELETE "/api/conversations/$id")"
expect "and is gone" '"unknown_conversation"' "$(call GET "/api/conversations/$id")"
