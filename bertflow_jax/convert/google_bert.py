"""An encoder from Google's TensorFlow 1 variables, its bert_config.json and its vocab.txt."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bertflow_jax.convert.audit import Read, Shape, check_shapes, read_finite
from bertflow_jax.data.json_files import read_json_object, read_json_object_if_present, write_json
from bertflow_jax.data.tokens import TextTokenizer
from bertflow_jax.encoder.bert import Params
from bertflow_jax.encoder.bert_config import BertConfig
from bertflow_jax.encoder.hf_layout import POOLER, expected_shapes, from_hf
from bertflow_jax.encoder.hf_weights import check_layers
from bertflow_jax.errors import ConfigError, DataNotFoundError

SCOPES = ("bert/embeddings/", "bert/encoder/", "bert/pooler/")
_NORM_LEAVES = {"weight": "gamma", "bias": "beta"}


def google_name(name: str) -> str:
    """Return Google's name of a parameter of a Hugging Face BertModel."""
    module, _, leaf = name.rpartition(".")
    path = "bert/" + re.sub(r"\blayer\.(\d+)", r"layer_\1", module).replace(".", "/")
    if module.endswith("_embeddings"):
        return path
    if module.endswith("LayerNorm"):
        return f"{path}/{_NORM_LEAVES[leaf]}"
    return f"{path}/{'kernel' if leaf == 'weight' else leaf}"


def import_params(
    shapes: Mapping[str, Shape], read: Read, config: BertConfig, source: str
) -> Params:
    """Return the parameters of the encoder, with "pooler" if it is there.

    Args:
      shapes: Google's name -> shape of every tensor of the encoder.
      read: returns a tensor by its name.
      config: of the encoder.
      source: path, for messages.

    Raises WeightsError for a tensor that is missing, unexpected, misshapen or not finite.
    """
    check_layers(config, len(shapes), source)
    layouts = expected_shapes(config)
    if not any(name.startswith("bert/pooler/") for name in shapes):
        layouts = {name: shape for name, shape in layouts.items() if not name.startswith(POOLER)}
    names = {name: google_name(name) for name in layouts}
    # Google's dense kernels are [in, out], those of `from_hf` [out, in].
    kernels = {name for name, google in names.items() if google.endswith("/kernel")}
    expected = {
        google: layouts[name][::-1] if name in kernels else layouts[name]
        for name, google in names.items()
    }
    what = f"a BERT of {config.num_hidden_layers} layers x {config.hidden_size} (--bert_config)"
    check_shapes(shapes, expected, source, what)
    tensors = {}
    for name, google in names.items():
        value = read_finite(read, google, source)
        tensors[name] = value.T if name in kernels else value
    return from_hf(tensors, config)


def read_bert_config(path: Path) -> BertConfig:
    """Read a bert_config.json; raises DataNotFoundError, ConfigError or UnsupportedModelError."""
    return BertConfig.from_dict(read_json_object(path), source=str(path))


def make_tokenizer(vocab: Path, config: BertConfig, do_lower_case: bool) -> TextTokenizer:
    """Return the tokenizer of a vocab.txt.

    Raises:
      DataNotFoundError: no such file.
      ConfigError: no vocabulary of a BERT, or one larger than the embedding table.
    """
    if not vocab.is_file():
        raise DataNotFoundError(f"--vocab={vocab} not found")
    with tempfile.TemporaryDirectory(prefix="bertflow-jax-") as name:
        folder = Path(name)
        (folder / "vocab.txt").write_bytes(vocab.read_bytes())
        write_json(
            folder / "tokenizer_config.json",
            {"tokenizer_class": "BertTokenizer", "do_lower_case": do_lower_case},
        )
        try:
            return TextTokenizer.from_folder(
                folder,
                vocab_size=config.vocab_size,
                positions=config.max_position_embeddings,
                name=f"--vocab={vocab}",
            )
        except ConfigError as error:
            told = str(error).replace(name + "/", "")
            if not told.startswith("--vocab="):
                told = f"--vocab={vocab}: {told}"
            raise ConfigError(told) from error


def find_lower_case(vocab: Path, given: bool | None) -> bool:
    """Return whether texts are lower-cased, which decides most token ids.

    Google's models say it only by the name of their folder (uncased_L-12_H-768_A-12); a
    tokenizer_config.json beside the vocabulary says it too.

    Raises:
      ConfigError: nobody says, or the flag contradicts the folder.
    """
    beside = read_json_object_if_present(vocab.with_name("tokenizer_config.json"))
    said, where = beside.get("do_lower_case"), f"{vocab.with_name('tokenizer_config.json')}"
    if not isinstance(said, bool):
        folder = vocab.absolute().parent.name
        cased = re.match(r"(?:.*[-_])?(un)?cased_L-\d", folder)
        said, where = (bool(cased[1]), f"the folder's name {folder}") if cased else (None, "")
    if given is None and said is None:
        raise ConfigError(
            "--do_lower_case or --nodo_lower_case is needed: nothing says whether the vocabulary "
            f"{vocab} is of an uncased (lower-casing) or of a cased model"
        )
    if given is not None and said is not None and given != said:
        raise ConfigError(
            f"--{'' if given else 'no'}do_lower_case contradicts {where}; leave the flag out"
        )
    return bool(said if given is None else given)
