#!/usr/bin/env bash
# Test on Slurm: tools/slurm_test.sh PARTITION JOB_NAME CONFIG CHECKPOINT [test.py's options]
# GPUS in all (default 8), GPUS_PER_NODE (default 8), CPUS_PER_TASK a GPU (default 5), SRUN_ARGS.
MMVTR_TOOL=test.py exec bash "$(dirname "$0")/slurm_train.sh" "$@"
