#!/usr/bin/env bash
# Run a command of bertflow_jax: what the container starts.
#
#   docker run ... bertflow COMMAND [--flag=value ...]
#
# train, evaluate                    train.py and evaluate.py
# embed, convert, reproduce          the modules of the package with these names
# python                             Python itself
set -euo pipefail

command=${1:-}
case $command in
  train | evaluate) exec python "/app/$command.py" "${@:2}" ;;
  embed | convert | reproduce) exec python -m "bertflow_jax.$command" "${@:2}" ;;
  python) exec "$@" ;;
  --help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" ;;
  *)
    echo "error: unknown command '$command' (--help shows them)" >&2
    exit 2
    ;;
esac
