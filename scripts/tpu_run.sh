#!/usr/bin/env bash
# Run one command of the project on every host of a TPU at the same time, or on one of them.
#
#   [VARIABLE=value ...] scripts/tpu_run.sh [--detach] [--worker=N] [--dry_run] COMMAND [ARGUMENT ...]
#
#   scripts/tpu_run.sh --detach python train.py --config=configs/text.py --workdir=gs://BUCKET/runs/mine
#   scripts/tpu_run.sh --worker=0 tail -f ../run.log
#
# The flags of this script stand before COMMAND; those behind it are COMMAND's own.
#
# --detach    go on without this terminal; on each host the files beside the project are run.log (the
#             output, at its end "exit code N") and run.pid (the process)
# --worker=N  on host N alone, the first is 0
# --dry_run   print the commands instead of running them
#
# TPU_NAME  name of the TPU; bertflow
# ZONE      where; europe-west4-b
# PROJECT   Google Cloud project; as gcloud is set
#
# COMMAND runs in the project's folder, with the Python that tpu_setup.sh installed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/tpu_common.sh
source "$here/tpu_common.sh"

detach=false
worker=all
while [[ ${1:-} == --* ]]; do
  case $1 in
    --detach) detach=true ;;
    --worker=*)
      worker=${1#*=}
      [[ $worker =~ ^[0-9]+$ ]] || refuse "$1: the number of a host is needed, the first is 0"
      ;;
    --dry_run) dry_run=true ;;
    --help) usage && exit 0 ;;
    *) refuse "unexpected argument '$1' before COMMAND" ;;
  esac
  shift
done
if [[ $# -eq 0 ]]; then
  refuse "COMMAND is missing"
fi

command="cd $FOLDER && . .venv/bin/activate && "
if $detach; then
  # The shell that waits tells the exit code; SIGTERM is for the process of run.pid.
  watched="$(quoted "$@") & echo \$! >../run.pid; wait \$!; echo exit code \$?"
  command+="(nohup bash -c $(quoted "$watched") >../run.log 2>&1 </dev/null &)"
else
  command+="exec $(quoted "$@")"
fi
on_hosts "$worker" "$command"
