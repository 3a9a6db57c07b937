#!/usr/bin/env bash
# Test on several processes: tools/dist_test.sh CONFIG CHECKPOINT PROCESSES [test.py's options]
# Several machines: set NNODES, NODE_RANK, MASTER_ADDR (and PORT) on each.
set -e

CONFIG=$1
CHECKPOINT=$2
PROCESSES=$3
TOOLS=$(dirname "$0")

PYTHONPATH="$TOOLS/..:$PYTHONPATH" python "$TOOLS/launch.py" \
    --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" \
    --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${PORT:-29500}" \
    --nproc_per_node="$PROCESSES" \
    "$TOOLS/test.py" "$CONFIG" "$CHECKPOINT" --launcher pytorch "${@:4}"
