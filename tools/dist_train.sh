#!/usr/bin/env bash
# Train on several processes: tools/dist_train.sh CONFIG PROCESSES [train.py's options]
# Several machines: set NNODES, NODE_RANK, MASTER_ADDR (and PORT) on each.
# One process a GPU; without CUDA the processes share the CPU.
set -e

CONFIG=$1
PROCESSES=$2
TOOLS=$(dirname "$0")

PYTHONPATH="$TOOLS/..:$PYTHONPATH" python "$TOOLS/launch.py" \
    --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" \
    --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${PORT:-29500}" \
    --nproc_per_node="$PROCESSES" \
    "$TOOLS/train.py" "$CONFIG" --launcher pytorch "${@:3}"
