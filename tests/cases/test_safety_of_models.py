"""Nothing that a stranger's model folder holds is run, and no path in it leads out of it."""

import ast
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fuzz_weight_folders import write_good
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import BertFlowError, ConfigError, UnsupportedModelError, WeightsError
from bertflow_jax.postprocess import load

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["the dog", "a b c."]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    place = tmp_path_factory.mktemp("good")
    write_good(place)
    return place


def change(file, **fields):
    """Set fields of a JSON file, which may not be there yet."""
    content = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**content, **fields}))


def change_module(folder, number, **fields):
    """Set fields of one module of a modules.json."""
    modules = json.loads((folder / "modules.json").read_text())
    modules[number] |= fields
    (folder / "modules.json").write_text(json.dumps(modules))


def booby_trap(folder, marker):
    """Put code into a folder wherever some loader looks for it."""
    code = f"open({str(marker)!r}, 'w')\n"
    names = (
        "modeling_bert",
        "configuration_bert",
        "tokenization_bert",
        "tokenizer",
        "sitecustomize",
    )
    names += ("__init__", "bertflow_modules", "conftest", "custom_st", "usercustomize")
    for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
        for name in names:
            (place / f"{name}.py").write_text(code)
    classes = {
        "AutoConfig": "configuration_bert.BertConfig",
        "AutoModel": "modeling_bert.BertModel",
        "AutoTokenizer": ["tokenization_bert.Tok", "tokenization_bert.Tok"],
    }
    template = (
        "{{ ''.__class__.__mro__[1].__subclasses__() }}{% for x in ().__class__ %}{% endfor %}"
    )
    change(
        folder / "config.json", auto_map=classes, custom_pipelines={"x": {"impl": "custom_st.X"}}
    )
    change(folder / "tokenizer_config.json", auto_map=classes, chat_template=template)
    change(
        folder / "config_sentence_transformers.json",
        __version__={"x": "9"},
        prompts={"q": template},
    )
    (folder / "chat_template.jinja").write_text(template)
    (folder / "requirements.txt").write_text("evil\n")
    (folder / "setup.py").write_text(code)


@pytest.mark.parametrize("kind", ["model.safetensors", "sentence-transformers", "with a flow"])
def test_no_code_of_a_folder_is_run(good, tmp_path, monkeypatch, kind):
    """Bug: auto_map, a .py file or a template of a folder heeded; in any step from load to save."""
    folder, marker = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(good / kind, folder)
    plain = SentenceEncoder.from_pretrained(folder).encode(TEXTS)
    booby_trap(folder, marker)
    monkeypatch.chdir(folder)
    encoder = SentenceEncoder.from_pretrained(folder)
    np.testing.assert_array_equal(encoder.encode(TEXTS), plain)
    encoder.save_pretrained(tmp_path / "saved")
    SentenceEncoder.from_pretrained(tmp_path / "saved").encoder.tokenizer.to_hugging_face()
    assert not marker.exists()
    assert "auto_map" not in (tmp_path / "saved" / "config.json").read_text()


@pytest.mark.parametrize("kind", ["custom_st.Evil", "os.system", "modeling_bert.BertModel"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_foreign_module_is_named_and_never_imported(good, tmp_path, monkeypatch, kind, place):
    """Bug: the class that modules.json names is imported, as sentence-transformers does."""
    folder, marker = tmp_path / "m", tmp_path / "ran"
    shutil.copytree(good / "sentence-transformers", folder)
    booby_trap(folder, marker)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    change_module(folder, place, type=kind)
    # The last one has a name that is known, of a class that is not.
    for named in (kind, ("custom_st.Transformer", "custom_st.Pooling")[place]):
        change_module(folder, place, type=named)
        with pytest.raises(UnsupportedModelError, match=rf"modules\.json: module '{named}' is not"):
            SentenceEncoder.from_pretrained(folder)
    assert not marker.exists()


@pytest.mark.parametrize("path", ["../../etc", "..", "/etc", "1_Pooling/../../x", "x\0y"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_module_path_stays_in_its_folder(good, tmp_path, path, place):
    """Bug: a config read from elsewhere because modules.json says so."""
    folder = shutil.copytree(good / "sentence-transformers", tmp_path / "m")
    change_module(folder, place, path=path)
    with pytest.raises(ConfigError, match=r"modules\.json: (module path .* leaves|every module)"):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize(
    "entry",
    ["../good/x*", "/etc/x*", "a/../../x*", "x/y*", "..", "", "x.json", None, ["x"], {}],
    ids=repr,
)
@pytest.mark.parametrize("name", ["model.safetensors", "flax_model.msgpack", "pytorch_model.bin"])
def test_a_shard_lies_beside_its_index(good, tmp_path, name, entry):
    """Bug: an index that names a file elsewhere; TypeError for what is no name."""
    if name.endswith(".bin"):
        pytest.importorskip("torch", reason="a .bin file needs torch")
    folder = shutil.copytree(good / f"{name} in shards", tmp_path / "m")
    index = folder / f"{name}.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    key = sorted(weight_map)[3]
    if isinstance(entry, str):
        entry = entry.replace("*", Path(name).suffix)
    index.write_text(json.dumps({"weight_map": {**weight_map, key: entry}}))
    with pytest.raises(
        WeightsError, match=r"index\.json: shard .* must be a \..* file in the same folder"
    ):
        SentenceEncoder.from_pretrained(folder)


def test_a_post_processor_is_read_from_its_own_folder(good, tmp_path):
    """Bug: a number of steps or a kind in a JSON file taken for a path."""
    folder = shutil.copytree(good / "compose", tmp_path / "m")
    for steps in ("../x", ["../x"], "1", 1.0, {"0": ".."}):
        change(folder / "compose.json", steps=steps)
        with pytest.raises(BertFlowError, match=r"compose\.json is not readable"):
            load(folder)
    folder = shutil.copytree(good / "whitening", tmp_path / "w")
    for kind in ("../x", "os.system", ["whitening"], {}, None):
        change(folder / "postprocess.json", kind=kind)
        with pytest.raises(BertFlowError, match=r"postprocess\.json: unknown kind"):
            load(folder)


# Where the code may name one of these, and how.
ALLOWED = {
    "encoder/weight_files.py": {"torch.load(weights_only=True)", "import pickle"},
}
DANGEROUS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "pickle",
    "cPickle",
    "marshal",
    "shelve",
    "dill",
    "joblib",
    "cloudpickle",
    "trust_remote_code",
    "allow_pickle",
}


def findings(path):
    """What a file does that could run code from data: calls and imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            yield from (f"import {name}" for name in names if name.split(".")[0] in DANGEROUS)
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        words = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if name in DANGEROUS or name.startswith("pickle."):
            yield f"{name}()"
        if (
            words.get("allow_pickle", "False") != "False"
            or words.get("trust_remote_code", "False") != "False"
        ):
            yield f"{name}({words})"
        if name == "torch.load":
            yield f"torch.load(weights_only={words.get('weights_only')})"
        if name in ("yaml.load", "yaml.unsafe_load"):
            yield f"{name}()"


def test_the_package_unpickles_nothing_and_evaluates_nothing():
    """Bug: a new reader that takes the easy way; torch.load without weights_only."""
    found = {}
    for path in sorted((ROOT / "bertflow_jax").rglob("*.py")):
        here = set(findings(path))
        if here:
            found[path.relative_to(ROOT / "bertflow_jax").as_posix()] = here
    assert found == ALLOWED
