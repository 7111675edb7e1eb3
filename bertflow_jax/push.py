"""Upload a fitted model to the Hugging Face Hub: python -m bertflow_jax.push --repo_id=YOU/NAME.

A fitted flow on its encoder, from a train.py run, with the scores of its evaluation, if any:
  python -m bertflow_jax.push --workdir=runs/demo --repo_id=YOU/NAME --license=apache-2.0
An encoder without a flow, or with --flow=FOLDER of one that was imported or saved by itself:
  python -m bertflow_jax.push --encoder=mini_bert --pooling=mean --repo_id=YOU/NAME --private
What would be uploaded, without uploading it:
  python -m bertflow_jax.push --workdir=runs/demo --repo_id=YOU/NAME --dry_run --output=pushed

The token is taken from HF_TOKEN, or from `hf auth login`; it needs write access.
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from bertflow_jax import cli, model_flags
from bertflow_jax.checks import parse_step
from bertflow_jax.data.json_files import read_json_object
from bertflow_jax.errors import ConfigError
from bertflow_jax.output_places import check_empty, output_folder
from bertflow_jax.paths import user_path
from bertflow_jax.remote.address import remote_address

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder
    from bertflow_jax.integrations.hub_upload import Target

_log = logging.getLogger(__name__)
FLAGS = flags.FLAGS

_REPO = flags.DEFINE_string("repo_id", None, "Where to: OWNER/NAME, or NAME for the token's user.")
_PRIVATE = flags.DEFINE_bool(
    "private", None, "Whether a new repository is private; default: as the owner's settings say."
)
_BRANCH = flags.DEFINE_string("branch", None, "Branch to commit to; default: the main one.")
_MESSAGE = flags.DEFINE_string("message", None, "Of the commit; default: which version wrote it.")
_EXIST_OK = flags.DEFINE_bool("exist_ok", True, "Add a commit to a repository that is there.")
_LICENSE = flags.DEFINE_string(
    "license", None, "A licence of the Hub, as apache-2.0, for the card."
)
_LANGUAGE = flags.DEFINE_list("language", [], "For the card: language codes, as en.")
_BASE_MODEL = flags.DEFINE_string(
    "base_model",
    None,
    "For the card: Hub id of the encoder it was made from; default: the run's, if it is one.",
)
_METRICS = flags.DEFINE_string(
    "metrics",
    None,
    "For the card: results.json of evaluate.py on this model; default: WORKDIR/eval/results.json, "
    "if it is there and of this step.",
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Write the folder to --output and upload nothing.")
_OUTPUT = flags.DEFINE_string("output", None, "With --dry_run: folder to write.")
flags.adopt_module_key_flags(model_flags)


def main() -> None:
    """Push as the flags say."""
    target, output = _checked()
    encoder, config, data, metrics = _load()
    # Imported here so that a wrong flag is reported without the seconds that loading JAX takes.
    from bertflow_jax.integrations.hub import CardFields, push_encoder, write_encoder

    language = tuple(_LANGUAGE.value)
    fields = CardFields(_LICENSE.value, language, _BASE_MODEL.value, metrics, config, data)
    if target is None:
        folder = write_encoder(encoder, output, fields.card(encoder, _REPO.value))
        print(f"nothing was uploaded; what would be: {folder}")
        print(f"its model card: {folder / 'README.md'}")
        return
    print(f"uploaded: {push_encoder(encoder, target, fields)}")


def _checked() -> "tuple[Target | None, Path]":
    """Return where the push goes and the folder of a dry run; refuse wrong flags before JAX loads.

    Raises:
      BertFlowError: naming the flag.
    """
    for flag in (_REPO, _BRANCH, _MESSAGE, _METRICS, _OUTPUT):
        if flag.value is not None and not flag.value.strip():
            raise ConfigError(f"--{flag.name} is blank; give it a value, or leave it out")
    if _REPO.value is None:
        raise ConfigError("--repo_id=OWNER/NAME is missing: where to upload to")
    if _DRY_RUN.value != (_OUTPUT.value is not None):
        raise ConfigError("--dry_run and --output=FOLDER go together: give both, or neither")
    model_flags.encoder_spec()
    if _METRICS.value is not None:
        read_json_object(user_path(_METRICS.value, "--metrics"))
    from bertflow_jax.hub_access import check_card_fields, check_repo_id
    from bertflow_jax.integrations.hub_upload import Target

    check_card_fields(_LICENSE.value, _LANGUAGE.value, _BASE_MODEL.value)
    if _DRY_RUN.value:
        check_repo_id(_REPO.value, "--repo_id")
        output = output_folder(_OUTPUT.value or "")
        check_empty(output, f"--output={_OUTPUT.value}")
        return None, output
    target = Target(
        _REPO.value,
        private=_PRIVATE.value,
        revision=_BRANCH.value,
        commit_message=_MESSAGE.value,
        exist_ok=_EXIST_OK.value,
    )
    return target, Path()


_Loaded = tuple[
    "SentenceEncoder",
    Mapping[str, Any] | None,
    Mapping[str, Any] | None,
    Mapping[str, Any] | str | None,
]


def _load() -> _Loaded:
    """Return the encoder with its post-processor, the run's config and text, and its scores."""
    if FLAGS.workdir is None:
        return model_flags.encoder_spec().load(), None, None, _METRICS.value
    from bertflow_jax.restore import load_run

    run = load_run(FLAGS.workdir, parse_step(FLAGS.step))
    metrics = _METRICS.value or _own_metrics(FLAGS.workdir, run.step)
    encoder = run.encoder.with_postprocess(run.flow)
    return encoder, run.records.config, run.records.manifest, metrics


def _own_metrics(workdir: str, step: int) -> dict[str, Any] | None:
    if remote_address(workdir, "--workdir") is not None:
        return None
    path: Path = user_path(workdir, "--workdir") / "eval" / "results.json"
    if not os.path.isfile(path):
        _log.warning("no scores on the card: %s is not there (python evaluate.py writes it)", path)
        return None
    found = read_json_object(path)
    scored = (found.get("model") or {}).get("step")
    if scored != step:
        _log.warning("no scores on the card: %s is of step %s, this is %s", path, scored, step)
        return None
    return found


if __name__ == "__main__":
    cli.run(main)
