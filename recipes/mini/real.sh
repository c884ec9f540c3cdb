#!/usr/bin/env bash
# Stage 4 of `mini`: training goes on, gently, on more real questions. Usage: real.sh DATA BUILD [option of mbc train ...]
# Run again, it goes on from the last snapshot.
set -euo pipefail
data=$1 build=$2
shift 2

if [ -e "$build/real/events.jsonl" ]; then
    exec mbc train --resume --run "$build/real" "$@"
fi
exec mbc train --preset mini --run "$build/real" --from "$build/memory/model" \
    --set model.base="$(realpath "$build/base")" \
    --set training.epochs=1 --set training.learning_rate=5e-4 \
    --data newswire:train:3000 \
    --data "$data/qa/squad_train_part.jsonl.xz" \
    --data "$data/qa/squadshifts_reddit.jsonl.xz" \
    --data "$data/qa/squadshifts_amazon.jsonl.xz" \
    --validation newswire:validation:64 "$@"
