"""A folder holds one post-processor: what was saved last, whatever was there before."""

import itertools
import json

import numpy as np
import pytest

from bertflow_jax.config import FlowConfig, TrainConfig
from bertflow_jax.errors import BertFlowError, CheckpointError, InputError, WorkdirError
from bertflow_jax.postprocess import NATSV, Compose, Flow, Standardize, Whitening, load

U = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
FLOW = FlowConfig(levels=1, depth=1, width=4)
MAKE = {
    "flow": lambda: Flow(FLOW, train=TrainConfig(steps=1, batch_size=16)),
    "whitening": Whitening,
    "compose": lambda: Compose([Standardize(), NATSV(2)]),
    "nested": lambda: Compose([Compose([Standardize(), Whitening()]), NATSV(1), NATSV(1)]),
}


@pytest.fixture(scope="module")
def fitted():
    return {kind: make().fit(U) for kind, make in MAKE.items()}


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(MAKE, 2)))
def test_saving_over_another_kind_gives_the_new_one(fitted, first, second, tmp_path):
    """The old kind's files were left beside the new ones, and `load` took the old kind."""
    fitted[first].save(tmp_path / "both")
    fitted[second].save(tmp_path / "both")
    fitted[second].save(tmp_path / "alone")
    loaded = load(tmp_path / "both")
    np.testing.assert_array_equal(loaded.transform(U), fitted[second].transform(U))
    names = [
        sorted(str(path.relative_to(tmp_path / folder)) for path in (tmp_path / folder).rglob("*"))
        for folder in ("both", "alone")
    ]
    assert names[0] == names[1]


def test_saving_keeps_foreign_files(fitted, tmp_path):
    fitted["nested"].save(tmp_path)
    foreign = [tmp_path / "notes.txt", tmp_path / "1" / "notes.txt", tmp_path / "7" / "mine"]
    Whitening().fit(U).save(tmp_path / "7")  # no step of the Compose
    for file in foreign:
        file.write_text("mine")
    fitted["whitening"].save(tmp_path)
    assert [file.read_text() for file in foreign] == ["mine"] * 3
    np.testing.assert_array_equal(
        load(tmp_path / "7").transform(U), Whitening().fit(U).transform(U)
    )
    assert not (tmp_path / "0").exists()


def test_a_step_that_is_a_link_is_not_followed(fitted, tmp_path):
    """Files of a post-processor that lies elsewhere must not be deleted through a link."""
    fitted["whitening"].save(tmp_path / "other")
    fitted["compose"].save(tmp_path / "p")
    for file in (tmp_path / "p" / "1").iterdir():
        file.unlink()
    (tmp_path / "p" / "1").rmdir()
    (tmp_path / "p" / "1").symlink_to(tmp_path / "other")
    fitted["flow"].save(tmp_path / "p")
    assert load(tmp_path / "other").name == "whitening"


def test_a_folder_of_two_kinds_is_refused(fitted, tmp_path):
    """As folders written by earlier versions are."""
    fitted["flow"].save(tmp_path / "p")
    fitted["whitening"].save(tmp_path / "w")
    for file in (tmp_path / "w").iterdir():
        file.rename(tmp_path / "p" / file.name)
    for read in (load, Flow.load, Whitening.load, Compose.load):
        with pytest.raises(CheckpointError, match=r"flow_config\.json and postprocess\.json"):
            read(tmp_path / "p")


def test_load_of_another_kind_says_what_is_there(fitted, tmp_path):
    """`Whitening.load` of a Compose said "postprocess.json not found"."""
    for kind in ("compose", "flow", "whitening"):
        fitted[kind].save(tmp_path / kind)
    cases = [(Whitening, "compose"), (Flow, "compose"), (Whitening, "flow"), (Compose, "flow")]
    for kind, folder in cases:
        with pytest.raises(CheckpointError, match=f"holds a {folder}, not a {kind.name}"):
            kind.load(tmp_path / folder)
    with pytest.raises(CheckpointError, match="holds a post-processor, not a compose"):
        Compose.load(tmp_path / "whitening")


def test_an_unfitted_step_leaves_what_was_saved(fitted, tmp_path):
    fitted["compose"].save(tmp_path)
    with pytest.raises(BertFlowError, match="this natsv is not fitted yet"):
        Compose([Standardize().fit(U), NATSV(1)]).save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).transform(U), fitted["compose"].transform(U))


def test_an_interrupted_save_of_compose_is_no_mixture(fitted, tmp_path, monkeypatch):
    """The first step new, the second one old, and compose.json still there to load both."""
    fitted["compose"].save(tmp_path)
    new = Compose([Whitening(), NATSV(1)]).fit(U)

    def fail(folder):
        raise WorkdirError("disk full")

    monkeypatch.setattr(new.steps[1], "save", fail)
    with pytest.raises(WorkdirError, match="disk full"):
        new.save(tmp_path)
    with pytest.raises(BertFlowError):
        load(tmp_path)


@pytest.mark.parametrize("count", ["true", "0", "-1", '"2"', "2.5", "{}"])
def test_a_damaged_number_of_steps(fitted, tmp_path, count):
    fitted["compose"].save(tmp_path)
    (tmp_path / "compose.json").write_text(f'{{"steps": {count}}}')
    with pytest.raises(CheckpointError, match="steps"):
        load(tmp_path)


def test_one_object_twice_in_compose():
    """The second fit overwrote the first, and both steps applied the second."""
    one = Standardize()
    for steps in ([one, one], [Compose([one, NATSV(1)]), one]):
        with pytest.raises(InputError, match="one standardize object twice"):
            Compose(steps)


@pytest.mark.parametrize("kind", [[], {}, None, "../x"])
def test_an_unknown_kind_of_any_type(fitted, tmp_path, kind):
    """TypeError: a list cannot be looked up by its hash."""
    fitted["whitening"].save(tmp_path)
    file = tmp_path / "postprocess.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "kind": kind}))
    with pytest.raises(CheckpointError, match=r"postprocess\.json: unknown kind"):
        load(tmp_path)
    file.write_text("[" * 5000 + "]" * 5000)
    with pytest.raises(CheckpointError, match=r"postprocess\.json is not readable"):
        load(tmp_path)


@pytest.mark.parametrize("shapes", [True, [], "x", {"mean": 5}])
def test_shapes_of_a_wrong_type(fitted, tmp_path, shapes):
    """AttributeError for what is no object."""
    fitted["whitening"].save(tmp_path)
    file = tmp_path / "postprocess.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "shapes": shapes}))
    with pytest.raises(CheckpointError, match="not a readable whitening"):
        load(tmp_path)
