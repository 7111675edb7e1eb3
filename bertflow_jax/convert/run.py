"""One import from flags to folders."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

from bertflow_jax.convert.flow_import import STATED, import_flow
from bertflow_jax.convert.flow_layouts import RELEASED
from bertflow_jax.convert.google_bert import (
    find_lower_case,
    import_params,
    make_tokenizer,
    read_bert_config,
)
from bertflow_jax.convert.port import find_file, import_port, stored_pooling
from bertflow_jax.convert.tf1 import Sorted, sort_checkpoint
from bertflow_jax.convert.tf_bundle import find_prefix
from bertflow_jax.data.json_files import write_json
from bertflow_jax.encoder.pooling import parse_pooling
from bertflow_jax.encoder.pretrained import Encoder, save_encoder
from bertflow_jax.errors import ConfigError, DataNotFoundError, WorkdirError
from bertflow_jax.output_places import refuse_link
from bertflow_jax.paths import user_path, wrong_kind
from bertflow_jax.postprocess.flow import Flow
from bertflow_jax.staging import files_together
from bertflow_jax.workdir import folder_to_save

RECORD = "import.json"


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """What to import and where to; exactly one of `flow` and `checkpoint` is given.

    Attributes:
      flow: state dict of the PyTorch port, or the folder of its save_pretrained.
      checkpoint: prefix, file or folder of a TensorFlow 1 checkpoint.
      output: folder; gets `flow/`, `encoder/` and `import.json`.
      kind: `auto`, `port` or `tf1`; a word on which of the two is meant.
      bert_config: of the encoder; None takes bert_config.json beside the checkpoint.
      vocab: of the encoder; None takes vocab.txt beside the checkpoint.
      do_lower_case: of the vocabulary; None where its folder says.
      pooling: written into the encoder folder.
      levels: and the fields below: what the flow must be; None takes what the file says.
    """

    flow: str | None = None
    checkpoint: str | None = None
    output: str | None = None
    kind: str = "auto"
    bert_config: str | None = None
    vocab: str | None = None
    do_lower_case: bool | None = None
    pooling: str | None = None
    levels: int | None = None
    depth: int | None = None
    width: int | None = None
    coupling: str | None = None
    permutation: str | None = None
    activation: str | None = None

    def stated(self) -> dict[str, Any]:
        """Return what is said of the flow's shape: field -> value or None."""
        return {name: getattr(self, name) for name in STATED}


@dataclasses.dataclass(frozen=True)
class Imported:
    """What was read.

    Attributes:
      source: path of the file or prefix of the checkpoint.
      kind: `port` or `tf1`.
      flow: None if there is none in the source.
      encoder: None if there is none in the source.
      used: names of the tensors of both.
      left_out: name -> why.
      hint: how the flow's encoder is to be given to other commands.
      do_lower_case: of the encoder's vocabulary.
    """

    source: Path
    kind: str
    flow: Flow | None
    encoder: Encoder | None
    used: list[str]
    left_out: dict[str, str]
    hint: str = "--encoder=ITS_ENCODER"
    do_lower_case: bool | None = None


def run_convert(options: ConvertOptions) -> Imported:
    """Read and check everything, write the folders and print what became of every tensor.

    Raises:
      BertFlowError: of the kind that fits; the text names the flag, file or tensor. Nothing is
        written then.
    """
    _check(options)
    assert options.output is not None
    output = folder_to_save(options.output)
    for name in ("flow", "encoder", RECORD):
        refuse_link(output / name, f"--output={options.output}: {name}")
        if (output / name).exists():
            raise WorkdirError(f"--output={options.output} already holds {name}: name a new folder")
    imported = _import_port(options) if options.flow is not None else _import_tf1(options)
    record = {
        "source": str(imported.source.absolute()),
        "kind": imported.kind,
        "used": imported.used,
        "left_out": imported.left_out,
    }
    with files_together(output) as new:
        if imported.flow is not None:
            imported.flow.save(new / "flow")
        if imported.encoder is not None:
            save_encoder(imported.encoder, new / "encoder")
        write_json(new / RECORD, record)
    _print(imported, output)
    return imported


def _check(options: ConvertOptions) -> None:
    for name in ("flow", "checkpoint", "output", "bert_config", "vocab"):
        value = getattr(options, name)
        if value is not None and not value.strip():
            raise ConfigError(f"--{name} is blank; name a path")
    if (options.flow is None) == (options.checkpoint is None):
        raise ConfigError(
            "give either --flow=glow.bin (of the PyTorch port) or --checkpoint=PREFIX (of "
            "TensorFlow 1)"
        )
    if options.output is None:
        raise ConfigError("--output=DIR is missing: the folder to write to")
    given, kind = ("flow", "port") if options.flow is not None else ("checkpoint", "tf1")
    if options.kind not in ("auto", kind):
        raise ConfigError(f"--kind={options.kind} contradicts --{given}, which is of kind {kind}")
    if kind == "port":
        for name in ("bert_config", "vocab", "do_lower_case", "pooling"):
            if getattr(options, name) is not None:
                raise ConfigError(
                    f"--{name} goes with --checkpoint; the port's encoder is in Hugging Face "
                    "layout already"
                )


def _import_port(options: ConvertOptions) -> Imported:
    assert options.flow is not None
    file = find_file(user_path(options.flow, "--flow"))
    flow, used = import_port(file, options.stated())
    pooling = stored_pooling(file)
    if pooling is None:
        return Imported(file, "port", flow, None, used, {})
    hint = f"--encoder={file.parent} --pooling={pooling}"
    return Imported(file, "port", flow, None, used, {}, hint)


def _import_tf1(options: ConvertOptions) -> Imported:
    assert options.checkpoint is not None
    prefix = find_prefix(user_path(options.checkpoint, "--checkpoint"))
    found = sort_checkpoint(prefix)
    flow = encoder = lower = None
    if found.encoder:
        encoder, lower = _import_encoder(found, options)
    elif options.bert_config is not None or options.vocab is not None:
        raise ConfigError(
            f"{prefix} holds a flow without an encoder; leave out --bert_config and --vocab"
        )
    if found.flow:
        flow = import_flow(RELEASED, found.flow, found.bundle.read, str(prefix), options.stated())
    elif any(value is not None for value in options.stated().values()):
        field = next(name for name, value in options.stated().items() if value is not None)
        raise ConfigError(f"--{field} is of a flow, but {prefix} holds an encoder alone")
    if flow is not None and encoder is not None:
        dimension = encoder.pooling.dimension(encoder.config.hidden_size)
        if flow.features != dimension:
            raise ConfigError(
                f"{prefix}: the flow is over {flow.features} dimensions, but --pooling="
                f"{options.pooling or 'mean'} of the encoder gives {dimension}; name the pooling "
                "that the flow was fitted on"
            )
    used = sorted([*found.encoder, *found.flow])
    return Imported(prefix, "tf1", flow, encoder, used, found.left_out, do_lower_case=lower)


def _import_encoder(found: Sorted, options: ConvertOptions) -> tuple[Encoder, bool]:
    config_path = _companion(found, options.bert_config, "bert_config", "bert_config.json")
    vocab = _companion(found, options.vocab, "vocab", "vocab.txt")
    config = read_bert_config(config_path)
    pooling = parse_pooling(options.pooling or "mean", config.num_hidden_layers)
    lower = find_lower_case(vocab, options.do_lower_case)
    tokenizer = make_tokenizer(vocab, config, lower)
    source = str(found.bundle.prefix)
    params = import_params(found.encoder, found.bundle.read, config, source)
    return Encoder(config=config, params=params, tokenizer=tokenizer, pooling=pooling), lower


def _companion(found: Sorted, given: str | None, flag: str, name: str) -> Path:
    """Return the path of the flag, or the file of that name beside the checkpoint."""
    path = (
        user_path(given, f"--{flag}") if given is not None else found.bundle.prefix.with_name(name)
    )
    if path.is_file():
        return path
    if (kind := wrong_kind(path)) is not None:
        raise ConfigError(f"--{flag}={path} is {kind}, and a file is read here; name a file")
    if given is not None:
        raise DataNotFoundError(f"--{flag}={given} not found")
    raise ConfigError(
        f"{found.bundle.prefix} holds an encoder, and {path} is not there: name it with --{flag}"
    )


def _print(imported: Imported, output: Path) -> None:
    print(f"read: {imported.source} ({len(imported.used)} tensors used)")
    if imported.flow is not None:
        config = imported.flow.config
        print(
            f"flow: {output / 'flow'} ({config.levels} levels x {config.depth} steps over "
            f"{imported.flow.features} dimensions, width {config.width}, {config.coupling} "
            f"coupling, {config.permutation} permutation, {config.activation})"
        )
    if imported.encoder is not None:
        bert = imported.encoder.config
        print(
            f"encoder: {output / 'encoder'} ({bert.num_hidden_layers} layers x {bert.hidden_size}, "
            f"do_lower_case {imported.do_lower_case}, pooling {imported.encoder.pooling})"
        )
    for why, count in Counter(imported.left_out.values()).items():
        first = next(name for name, reason in imported.left_out.items() if reason == why)
        print(f"left out: {count} x {why} ({first}{', ...' if count > 1 else ''})")
    print(f"every tensor by name: {output / RECORD}")
    if imported.flow is not None:
        encoder = f"--encoder={output / 'encoder'}" if imported.encoder else imported.hint
        print(f"to score: python evaluate.py {encoder} --flow={output / 'flow'}")
