#!/bin/bash
# A batch job for Slurm that runs a program of gcoll on all its tasks. Usage, from a folder that all nodes see:
#     sbatch examples/launch/slurm.sh ./from_env
#     sbatch --nodes=4 --ntasks-per-node=8 examples/launch/slurm.sh gcoll_bench --bytes 1Mi
#
# gcoll needs no variable of its own here: srun says rank, size and job, and the first node serves the store.
#SBATCH --job-name=gcoll
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:10:00
#SBATCH --output=gcoll-%j.out

if [ $# -eq 0 ]; then
    echo "usage: sbatch [OPTION...] slurm.sh PROGRAM [ARGUMENT...]" >&2
    exit 2
fi

# If a task fails, its peers report that and end by themselves: leave them a minute to do so.
exec srun --kill-on-bad-exit=0 --wait=60 "$@"
