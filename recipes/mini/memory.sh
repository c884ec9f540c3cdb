#!/usr/bin/env bash
# Stage 3 of `mini`: the memory, by `mbc train`. Usage: memory.sh DATA BUILD [option of mbc train ...]
# Run again, it goes on from the last snapshot.
set -euo pipefail
data=$1 build=$2
shift 2

if [ -e "$build/memory/events.jsonl" ]; then
    exec mbc train --resume --run "$build/memory" "$@"
fi
exec mbc train --preset mini --run "$build/memory" --set model.base="$(realpath "$build/base")" \
    --data newswire:train:12000 \
    --data "$data/qa/squad_train_part.jsonl.xz" \
    --validation newswire:validation:64 "$@"
