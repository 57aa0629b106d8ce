#!/bin/sh
# Starts a server and two clients, and ends with the largest of their exit codes.
# Usage: test.sh [ADDRESS]
cd "$(dirname "$0")" || exit 1
address=${1:-${SOFTHCA_ADDR:-127.0.0.1}}
dir=$(mktemp -d) || exit 1
trap 'rm -r "$dir"' EXIT
mkfifo "$dir/port" || exit 1

code=0
ended() { # a process with this exit code has ended
	[ "$1" -le "$code" ] || code=$1
}

./server "$address" >"$dir/port" &
server=$!
if read -r port <"$dir/port"; then
	./client "$address" "$port" one & one=$!
	./client "$address" "$port" two & two=$!
	wait $one; ended $?
	wait $two; ended $?
	kill $server 2>/dev/null
fi
wait $server; ended $?
exit $code
