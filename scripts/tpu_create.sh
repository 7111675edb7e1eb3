#!/usr/bin/env bash
# Create a Cloud TPU VM, or ask for one in the queue.
#
#   [VARIABLE=value ...] scripts/tpu_create.sh [--queued] [--spot] [--dry_run]
#
# --queued   ask for a queued resource (of the name $TPU_NAME), which comes when there is room
# --spot     cheaper, and may be taken away at any time
# --dry_run  print the commands instead of running them
#
# TPU_NAME          name of the TPU; bertflow
# ZONE              where; europe-west4-b
# PROJECT           Google Cloud project; as gcloud is set
# ACCELERATOR_TYPE  v5litepod-8 (one host), v5litepod-32, v4-8 (one host), v4-32, ...; v5litepod-8
# RUNTIME_VERSION   image of the hosts; by the accelerator type
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/tpu_common.sh
source "$here/tpu_common.sh"

ACCELERATOR_TYPE=${ACCELERATOR_TYPE:-v5litepod-8}
queued=false
wanted=("${location[@]}")
for argument in "$@"; do
  case $argument in
    --queued) queued=true ;;
    --spot) wanted+=(--spot) ;;
    --dry_run) dry_run=true ;;
    --help) usage && exit 0 ;;
    *) refuse "unexpected argument '$argument'" ;;
  esac
done

if [[ -z ${RUNTIME_VERSION:-} ]]; then
  case $ACCELERATOR_TYPE in
    v5litepod-*) RUNTIME_VERSION=v2-alpha-tpuv5-lite ;;
    v5p-*) RUNTIME_VERSION=v2-alpha-tpuv5 ;;
    v6e-*) RUNTIME_VERSION=v2-alpha-tpuv6e ;;
    v2-* | v3-* | v4-*) RUNTIME_VERSION=tpu-ubuntu2204-base ;;
    *) refuse "ACCELERATOR_TYPE=$ACCELERATOR_TYPE: its image is not known; set RUNTIME_VERSION" ;;
  esac
fi

if $queued; then
  run gcloud compute tpus queued-resources create "$TPU_NAME" --node-id="$TPU_NAME" \
    "${wanted[@]}" --accelerator-type="$ACCELERATOR_TYPE" \
    --runtime-version="$RUNTIME_VERSION"
  run gcloud compute tpus queued-resources describe "$TPU_NAME" "${location[@]}" \
    --format="value(state.state)"
else
  run gcloud compute tpus tpu-vm create "$TPU_NAME" "${wanted[@]}" \
    --accelerator-type="$ACCELERATOR_TYPE" --version="$RUNTIME_VERSION"
fi
