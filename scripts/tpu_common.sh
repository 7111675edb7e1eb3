# Sourced by the other scripts: variables, the usage text and the one place that runs a command.
# shellcheck shell=bash

ZONE=${ZONE:-europe-west4-b}
TPU_NAME=${TPU_NAME:-bertflow}
PROJECT=${PROJECT:-}
# Of the project on every host, in the home folder.
# shellcheck disable=SC2034
FOLDER=bertflow

dry_run=false
location=(--zone="$ZONE")
if [[ -n $PROJECT ]]; then
  location+=(--project="$PROJECT")
fi

# Print the comment at the top of the script as its usage text.
usage() {
  awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
}

# Say what is wrong with the command line; 2 is the exit code of every such mistake.
refuse() {
  echo "error: $1 (--help shows the usage)" >&2
  exit 2
}

# Print words quoted for a shell, with a space between them.
quoted() {
  local line
  printf -v line '%q ' "$@"
  printf '%s' "${line% }"
}

# Run a command, or with --dry_run print it as it could be pasted.
run() {
  if $dry_run; then
    quoted "$@"
    echo
  else
    "$@"
  fi
}

# Run a command line on one host of the slice, by its number, or on "all" at the same time.
on_hosts() {
  run gcloud compute tpus tpu-vm ssh "$TPU_NAME" "${location[@]}" --worker="$1" --command="$2"
}

on_all_hosts() {
  on_hosts all "$1"
}
