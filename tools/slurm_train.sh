#!/usr/bin/env bash
# Train on a Slurm cluster: tools/slurm_train.sh PARTITION JOB_NAME CONFIG [train.py's options]
# GPUS in all (default 8), GPUS_PER_NODE (default 8), CPUS_PER_TASK a GPU (default 5), SRUN_ARGS.
set -e

PARTITION=$1
JOB_NAME=$2
export CONFIG=$3
export TOOLS=$(dirname "$0")
export TOOL=${MMVTR_TOOL:-train.py}
GPUS=${GPUS:-8}
export PER_NODE=$((GPUS < ${GPUS_PER_NODE:-8} ? GPUS : ${GPUS_PER_NODE:-8}))
export PORT=${PORT:-29500}

# One task a node, which starts a process a GPU.
PYTHONPATH="$TOOLS/..:$PYTHONPATH" srun \
    --partition="$PARTITION" \
    --job-name="$JOB_NAME" \
    --nodes=$((GPUS / PER_NODE)) \
    --ntasks-per-node=1 \
    --gres="gpu:$PER_NODE" \
    --cpus-per-task=$((PER_NODE * ${CPUS_PER_TASK:-5})) \
    --kill-on-bad-exit=1 \
    ${SRUN_ARGS} \
    bash -c 'python "$TOOLS/launch.py" \
        --nnodes="$SLURM_NNODES" \
        --node_rank="$SLURM_NODEID" \
        --master_addr="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)" \
        --master_port="$PORT" \
        --nproc_per_node="$PER_NODE" \
        "$TOOLS/$TOOL" "$CONFIG" --launcher pytorch "$@"' "$TOOL" "${@:4}"
