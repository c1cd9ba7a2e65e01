#!/bin/sh
# Runs every model of this folder with DxDispatch, as run.ps1 does: in WSL, in Git Bash, or with another runner of its models.
# Usage: sh run.sh [DXDISPATCH [ADAPTER]]
# DXDISPATCH: path of DxDispatch; by default dxdispatch or dxdispatch.exe on PATH. ADAPTER: a part of the adapter's name.
# TIMEOUT (environment, default 60): time limit of each model in seconds, if the command `timeout` exists.

wanted=${1:-$(command -v dxdispatch || command -v dxdispatch.exe || echo dxdispatch)}
program=$(command -v "$wanted")
if [ ! -f "$program" ] || [ ! -x "$program" ]; then
    echo "run.sh: '$wanted' is no program: see README.txt, and name DxDispatch's: sh run.sh DXDISPATCH" >&2
    exit 2
fi
case $program in /*) ;; *) program=$PWD/$program ;; esac
adapter=${2:-}
cd "$(dirname "$0")" || exit 2
mkdir -p results || exit 2
limit=
if command -v timeout >/dev/null; then limit="timeout ${TIMEOUT:-60}"; fi

failed=0
ran=0
for model in models/*.json; do
    name=$(basename "$model" .json)
    rm -f "results/$name.bin" "results/$name.out" "results/$name.err" "results/$name.exit"
    $limit "$program" "$model" ${adapter:+-a "$adapter"} </dev/null >"results/$name.out" 2>"results/$name.err"
    code=$?
    if [ -n "$limit" ] && [ "$code" = 124 ]; then code=timeout; fi
    printf %s "$code" >"results/$name.exit"
    ran=$((ran + 1))
    if [ "$code" != 0 ]; then failed=$((failed + 1)); fi
done
echo "$ran models were run, $failed of them ended with an error. Next: send back the folder \"$PWD\", whole"
