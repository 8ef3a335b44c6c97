#!/usr/bin/env bash
# Runs a command that may print nothing for minutes, and prints how long it has been running every ten seconds.
# Usage: hack/progress.sh WHAT COMMAND [ARGUMENT...]
set -u
what=$1
shift
(
  # A sleep that outlives this script must not keep a pipe open.
  while sleep 10 >/dev/null 2>&1; do echo "$what … ${SECONDS}s elapsed"; done
) &
ticker=$!
trap 'kill "$ticker" 2>/dev/null' EXIT
"$@"
