"""An exported folder gives the vectors of `SentenceEncoder.encode`, alone and on every platform."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jax.export
import numpy as np
import pytest

from bertflow_jax import Compose, Flow, FlowConfig, Reduce, SentenceEncoder, Standardize
from bertflow_jax.errors import ConfigError, WorkdirError
from bertflow_jax.export.artifact import FILES, export_encoder

pytest.importorskip("flatbuffers", reason="jax.export writes with flatbuffers")

TEXTS = [
    "",
    "A man is playing a guitar.",
    "中文字符 and café, naïve Ünïcode",
    "[SEP] written out [MASK] in a text [PAD]",
    "lone \ud83d surrogate, pair \ud83d\ude00",
    *[
        " ".join(["word", "guitar", "unbelievably"][i % 3] for i in range(n))
        for n in range(1, 60, 5)
    ],
    "one two three " * 300,
    "\u4e00" * 700,
]
# What may not be imported beside the loader: everything of ours that is not jax or tokenizers.
BLOCKED = [
    "bertflow_jax",
    "flax",
    "distrax",
    "optax",
    "orbax",
    "transformers",
    "safetensors",
    "tensorflow",
    "torch",
    "absl",
    "ml_collections",
    "tensorflow_probability",
]
LONE_LOADER = f"""
import json, sys
for name in {BLOCKED!r}:
    sys.modules[name] = None  # importing it is an ImportError
sys.path.insert(0, sys.argv[1])
import load, jax, numpy
texts = json.loads(open(sys.argv[2]).read())
encoder = load.Encoder()
numpy.save(sys.argv[3], encoder.encode(texts))
print(jax.device_count())
# A batch that is split over the devices: as a server with several of them would call it.
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(numpy.asarray(jax.devices()), ("x",))
found = encoder.tokenizer.encode_batch(["A dog.", "It rains."] * 4)
arrays = [numpy.array([getattr(e, name) for e in found], "int32") for name in ("ids", "attention_mask")]
split = NamedSharding(mesh, PartitionSpec("x"))
params = jax.device_put(encoder.params, NamedSharding(mesh, PartitionSpec()))
vectors = encoder.call(params, *jax.device_put(arrays, split))
assert vectors.sharding.is_equivalent_to(split, 2), vectors.sharding
numpy.testing.assert_allclose(vectors, encoder.encode(["A dog.", "It rains."] * 4), atol=1e-5)
"""


def loader_of(folder: Path):
    spec = importlib.util.spec_from_file_location("loader", folder / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Encoder(folder)


def assert_same(folder: Path, encoder: SentenceEncoder, **options) -> None:
    wanted = encoder.encode(TEXTS, on_overflow="ignore", **options)
    np.testing.assert_allclose(loader_of(folder).encode(TEXTS), wanted, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def mini() -> SentenceEncoder:
    return SentenceEncoder.from_pretrained("mini_bert", pooling="first_last")


@pytest.fixture(scope="module")
def exported(mini, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "mini"
    export_encoder(mini, folder)
    return folder


@pytest.mark.parametrize("devices", [1, 8])
def test_the_folder_alone_gives_the_vectors_of_encode(devices, mini, exported, tmp_path):
    """A loader that needs this package, pads wrongly, or is bound to the one device of its export."""
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    arguments = [exported, tmp_path / "texts.json", tmp_path / "got.npy"]
    done = subprocess.run(
        [sys.executable, "-c", LONE_LOADER, *map(str, arguments)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == devices
    wanted = mini.encode(TEXTS, on_overflow="ignore")
    np.testing.assert_allclose(np.load(tmp_path / "got.npy"), wanted, rtol=1e-5, atol=1e-5)


def test_one_function_serves_three_platforms_and_any_batch(exported):
    """A batch or length baked in, or a platform that this machine lacks left out."""
    function = jax.export.deserialize(bytearray((exported / "embed.jaxexport").read_bytes()))
    assert function.platforms == ("cpu", "cuda", "tpu")
    assert [str(aval) for aval in function.in_avals[-2:]] == ["int32[b,16*t]"] * 2
    assert (exported / "embed.jaxexport").stat().st_size < 200_000  # parameters lie beside it


def test_the_file_names_no_folder_of_the_machine_that_wrote_it(exported):
    """Paths of the developer's home folder, in every file that is handed on."""
    content = (exported / "embed.jaxexport").read_bytes()
    assert b"bert.py" in content  # what follows looks at the right bytes
    assert b"/bert.py" not in content
    assert str(Path.home()).encode() + b"/" not in content


def test_the_manifest_describes_the_files(exported, mini):
    """Digests of other bytes, or a dimension that is not the vectors'."""
    manifest = json.loads((exported / "manifest.json").read_text("utf-8"))
    assert set(manifest["files"]) == set(FILES)
    for name, said in manifest["files"].items():
        content = (exported / name).read_bytes()
        assert said == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert manifest["encoder"] == mini.describe()
    assert manifest["dimension"] == mini.encode("a").shape[0]
    assert manifest["versions"]["jax"] == jax.__version__
    assert manifest["checked"]["largest_difference"] < 1e-5
    readme = (exported / "README.md").read_text("utf-8")
    assert manifest["files"]["params.npz"]["sha256"] in readme
    assert f"jax=={jax.__version__}" in readme


def test_the_example_in_the_readme_runs(exported, monkeypatch):
    """An argument that the function does not take."""
    monkeypatch.syspath_prepend(str(exported))
    monkeypatch.delitem(sys.modules, "load", raising=False)
    blocks = (exported / "README.md").read_text("utf-8").split("```python\n")[1:]
    spaces = [{} for _ in blocks]
    for block, space in zip(blocks, spaces, strict=True):
        exec(block.partition("```")[0], space)
    sys.modules.pop("load")
    assert [space["vectors"].shape for space in spaces] == [(2, 256), (2, 256)]
    assert all(np.isfinite(space["vectors"]).all() for space in spaces)


def test_flow_baselines_pooler_and_length_are_part_of_it(bert_folder, tmp_path):
    """A post-processor, a head or a limit left out; a maximum length that is no multiple of 16."""
    # Positions 40: the padded length, 48 or 64, lies beyond the position table.
    plain = SentenceEncoder.from_pretrained(bert_folder(), pooling="pooler", max_length=39)
    u = plain.encode([" ".join("abcdefghijklmnop"[i % 16 :: (i % 3) + 1]) for i in range(48)])
    flow = Flow(FlowConfig(levels=2, depth=1, width=8), seed=1)
    flow = Flow.from_variables(flow.config, _variables(flow), 16)
    both = Compose([Standardize(), Reduce(5, "pca")]).fit(u)
    for number, processor in enumerate((flow, both)):
        encoder = plain.with_postprocess(processor)
        folder = tmp_path / str(number)
        manifest = export_encoder(encoder, folder, ["cpu"], normalize=True)
        assert manifest["dimension"] == encoder.dimension
        assert_same(folder, encoder, normalize=True)
        assert (
            np.abs(encoder.encode(["a b"]) - plain.encode(["a b"])[:, : encoder.dimension]).max()
            > 0.1
        )


def _variables(flow: Flow):
    from bertflow_jax.flow.glow import init_variables

    rng = np.random.default_rng(0)
    made = init_variables(flow.config, 16, 1)
    moved = jax.tree.map(
        lambda x: x + 0.1 * rng.normal(size=x.shape).astype(x.dtype), made["params"]
    )
    return {**made, "params": moved}


def test_lower_layers_alone_are_stored(bert_folder, tmp_path):
    """Parameters that the vectors do not depend on, which double the size of a file."""
    encoder = SentenceEncoder.from_pretrained(bert_folder(), pooling="layers=(1)")
    export_encoder(encoder, tmp_path / "out", ["cpu"])
    stored = np.load(tmp_path / "out" / "params.npz")
    layers = [stored[name] for name in stored if name.startswith("encoder/layers/")]
    assert layers
    assert {len(array) for array in layers} == {1}
    assert not [name for name in stored if "pooler" in name]
    assert_same(tmp_path / "out", encoder)


def test_texts_lowered_before_tokenizing_and_cut_from_the_left(bert_folder, tmp_path):
    """The two settings of a folder that a tokenizer.json alone does not say."""
    folder = bert_folder()
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"truncation_side": "left", "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    settings = {"pooling": "mean", "normalize": False, "max_length": 8, "lower_first": True}
    (folder / "bertflow_jax.json").write_text(json.dumps(settings))
    encoder = SentenceEncoder.from_pretrained(folder)
    export_encoder(encoder, tmp_path / "out", ["cpu"])
    texts = ["A B C D E F G H I J K", "[SEP] A", "THE DOG", "a b c d e f g h i j k"]
    wanted = encoder.encode(texts, on_overflow="ignore")
    np.testing.assert_allclose(loader_of(tmp_path / "out").encode(texts), wanted, atol=1e-5)
    np.testing.assert_allclose(wanted[0], wanted[3], atol=1e-6)


def test_the_default_prompt_goes_before_the_texts(bert_folder, tmp_path):
    """A loader that leaves it out; the export itself then found other vectors, a traceback."""
    folder = bert_folder()
    SentenceEncoder.from_pretrained(folder).save_pretrained(folder)
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "the dog "}, "default_prompt_name": "query"})
    )
    encoder = SentenceEncoder.from_pretrained(folder)
    export_encoder(encoder, tmp_path / "out", ["cpu"])
    loaded = loader_of(tmp_path / "out")
    for prompt in (None, "", "a b "):
        np.testing.assert_allclose(
            loaded.encode(TEXTS, prompt=prompt),
            encoder.encode(TEXTS, prompt=prompt, on_overflow="ignore"),
            atol=1e-5,
        )
    assert np.abs(loaded.encode(TEXTS) - loaded.encode(TEXTS, prompt="")).max() > 0.01
    assert "puts 'the dog ' before every text" in (tmp_path / "out" / "README.md").read_text()


def test_bfloat16_stays_bfloat16(bert_folder, tmp_path):
    """A compute type that is lost: the vectors would be float32's."""
    folder = bert_folder()
    encoder = SentenceEncoder.from_pretrained(folder, dtype="bfloat16")
    export_encoder(encoder, tmp_path / "out")
    got = loader_of(tmp_path / "out").encode(["a b c the dog."])
    wanted = encoder.encode(["a b c the dog."])
    exact = SentenceEncoder.from_pretrained(folder).encode(["a b c the dog."])
    assert np.abs(got - wanted).max() < 0.5 * np.abs(exact - wanted).max() + 1e-6
    assert np.abs(got - exact).max() > 1e-4


def test_nothing_is_left_of_an_export_that_fails(mini, tmp_path, monkeypatch):
    """Half a folder that a server would load."""
    from bertflow_jax.export import artifact

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(artifact, "_check", fail)
    monkeypatch.setattr(artifact, "_function", lambda *_: (b"x", {}, {}))
    with pytest.raises(KeyboardInterrupt):
        export_encoder(mini, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_vectors_that_differ_are_not_written(bert_folder, tmp_path, monkeypatch):
    """The check of what was written compares nothing."""
    from bertflow_jax.export import artifact

    encoder = SentenceEncoder.from_pretrained(bert_folder())
    other = SentenceEncoder.from_pretrained(bert_folder("other", seed=5))
    real = artifact._function
    monkeypatch.setattr(artifact, "_function", lambda _, *rest: real(other, *rest))
    with pytest.raises(RuntimeError, match="away from SentenceEncoder"):
        export_encoder(encoder, tmp_path / "out", ["cpu"])
    assert not (tmp_path / "out").exists()


def test_mistakes_are_named(mini, tmp_path):
    """A folder overwritten, or a platform that nobody knows."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("kept")
    with pytest.raises(WorkdirError, match="full is not empty"):
        export_encoder(mini, tmp_path / "full")
    with pytest.raises(WorkdirError, match="is no folder"):
        export_encoder(mini, tmp_path / "full" / "a")
    with pytest.raises(ConfigError, match=r"platforms=gpu: must be some of cpu, cuda, tpu"):
        export_encoder(mini, tmp_path / "new", ["gpu"])
    with pytest.raises(ConfigError, match="one is named twice"):
        export_encoder(mini, tmp_path / "new", ["cpu", "cpu"])
    for place in ("gs://bucket/folder", "  "):
        with pytest.raises(WorkdirError, match=r"no folder of this machine|blank"):
            export_encoder(mini, place)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "full" / "a").read_text() == "kept"
