#!/usr/bin/env bash
# Run one command of the project on every host of a TPU at the same time.
#
#   [VARIABLE=value ...] scripts/tpu_run.sh [--detach] [--dry_run] COMMAND [ARGUMENT ...]
#
#   scripts/tpu_run.sh python train.py --config=configs/text.py --workdir=gs://BUCKET/runs/mine
#
# --detach   go on without this terminal; the output is in run.log beside the project on each host
# --dry_run  print the commands instead of running them
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
while [[ ${1:-} == --* ]]; do
  case $1 in
    --detach) detach=true ;;
    --dry_run) dry_run=true ;;
    --help) usage && exit 0 ;;
    *) refuse "unexpected argument '$1'" ;;
  esac
  shift
done
if [[ $# -eq 0 ]]; then
  refuse "COMMAND is missing"
fi

command="cd $FOLDER && . .venv/bin/activate && "
if $detach; then
  command+="(nohup $(quoted "$@") >../run.log 2>&1 </dev/null &)"
else
  command+="exec $(quoted "$@")"
fi
on_all_hosts "$command"
