#!/usr/bin/env bash
# Copy the last commit to every host of a TPU, install what it needs there, show the devices.
#
#   [VARIABLE=value ...] scripts/tpu_setup.sh [--dry_run]
#
# --dry_run  print the commands instead of running them
#
# TPU_NAME  name of the TPU; bertflow
# ZONE      where; europe-west4-b
# PROJECT   Google Cloud project; as gcloud is set
# PYTHON    version for the hosts, whose own (3.10) is too old; 3.12
#
# Run again after a new commit: what is installed already stays.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/tpu_common.sh
source "$here/tpu_common.sh"

PYTHON=${PYTHON:-3.12}
for argument in "$@"; do
  case $argument in
    --dry_run) dry_run=true ;;
    --help) usage && exit 0 ;;
    *) refuse "unexpected argument '$argument'" ;;
  esac
done

cd "$here/.."
run mkdir -p build
run git archive --format=tar.gz --output=build/bertflow.tar.gz HEAD
run gcloud compute tpus tpu-vm scp build/bertflow.tar.gz "$TPU_NAME": "${location[@]}" --worker=all
on_all_hosts "mkdir -p $FOLDER && tar -xzf bertflow.tar.gz -C $FOLDER"
# One resolution for JAX, the TPU library that goes with it, and our bounds on both.
on_all_hosts "cd $FOLDER && python3 -m pip install --quiet --user uv && python3 -m uv venv --quiet --allow-existing --python $(quoted "$PYTHON") .venv && python3 -m uv pip install --quiet --python .venv/bin/python 'jax[tpu]' '.[gcs]'"
on_all_hosts "cd $FOLDER && .venv/bin/python -c 'import jax; jax.distributed.initialize(); print(\"process\", jax.process_index(), \"of\", jax.process_count(), \":\", jax.local_device_count(), \"of\", jax.device_count(), \"devices,\", jax.devices()[0].device_kind)'"
