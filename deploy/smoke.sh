#!/usr/bin/env bash
# Plays the demo through the proxy of the running stack (docker-compose.yml): propose, notify, sign, executed once by
# the rail's own ledger, duplicates, and at last the audit.
#
#   deploy/smoke.sh             disturbs nothing
#   deploy/smoke.sh --kill      also kills a gateway, and the worker between the rail's payment and its own record of it
#
# COMPOSE says what runs the stack ("docker compose"); COUNTERSIGN_PORT is the published port (8080).
set -euo pipefail
cd "$(dirname "$0")/.."
read -r -a compose <<<"${COMPOSE:-docker compose}"
address=http://127.0.0.1:${COUNTERSIGN_PORT:-8080}
log=$(mktemp)
playing=
finish() {
    [ -z "$playing" ] || kill "$playing" 2>/dev/null || true
    rm -f "$log"
}
trap finish EXIT

say() { printf '\n=== %s\n' "$*"; }

demo() { "${compose[@]}" run --rm demo demo --url=http://proxy:8080/mcp --audience="$address/mcp" \
    --keys=/secrets/people --rail=http://sandbox:8082 "$@"; }

answers() {
    local left=$1
    until curl -fsS --max-time 5 "$address/readyz"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { echo "$address/readyz does not answer" >&2; return 1; }
        sleep 1
    done
    echo
}

say "ready, through the published port"
answers 60

say "the demo, through the proxy"
demo

if [ "${1:-}" = --kill ]; then
    say "one gateway is killed; the demo again"
    "${compose[@]}" kill -s KILL gateway-1
    demo
    "${compose[@]}" start gateway-1

    say "the worker is killed after the rail paid and before it could record that"
    demo --hold-reply=8 >"$log" 2>&1 &
    playing=$!
    for _ in $(seq 300); do
        grep -q 'keeps its answer back' "$log" && break
        kill -0 "$playing" 2>/dev/null || break
        sleep 0.2
    done
    grep -q 'keeps its answer back' "$log" || { cat "$log"; echo "the payment did not reach the rail" >&2; exit 1; }
    "${compose[@]}" kill -s KILL worker
    sleep 1
    "${compose[@]}" start worker
    ended=0
    wait "$playing" || ended=$?
    playing=
    cat "$log"
    [ "$ended" = 0 ] || exit 1
fi

whole() { "${compose[@]}" exec -T worker countersign verify audit --checkpoints /checkpoints \
    --key /secrets/gateway/checkpoint-key.pub --covered-within "$1"; }

say "the audit, by the checkpoints that the worker signed; then by one of all that was done"
# A broken chain stays broken; a database that could not be reached just now is asked again.
for left in 2 1 0; do
    whole 300 && "${compose[@]}" exec -T worker countersign audit checkpoint && whole 0 && break
    [ "$left" -gt 0 ] || exit 1
    sleep 2
done
say "all of it holds"
