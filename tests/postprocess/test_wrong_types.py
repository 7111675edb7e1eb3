"""Arguments of wrong types: an error of ours that names the argument, on one line."""

import json

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from bertflow_jax import (
    NATSV,
    BertFlowError,
    Compose,
    Config,
    Flow,
    FlowConfig,
    Reduce,
    Standardize,
    TrainConfig,
    Whitening,
)
from bertflow_jax.errors import CheckpointError, ConfigError, InputError, shown
from bertflow_jax.postprocess import Center, PureTransform, from_pretrained, load

U = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
OBJECT = object()
WRONG = [
    *(None, 3, 2.5, True, "x", b"x", [], [1], {}, {"a": 1}, {1}, OBJECT, 10**400),
    *(U, U[0], np.float32(0), np.array([None, 3], object), Whitening, Whitening(), len),
]


def _name(value):
    return f"{type(value).__name__}-{np.shape(value) if isinstance(value, np.ndarray) else ''}"


@pytest.fixture(scope="module")
def flow():
    return Flow(FlowConfig(levels=1, depth=1, width=4), train=TrainConfig(steps=1)).fit(U)


def _calls(flow, wrong):
    """Return what is called with a wrong value, by what it is."""
    calls = {
        "from_variables": lambda: Flow.from_variables(wrong, flow.variables, 8),
        "from_variables, variables": lambda: Flow.from_variables(flow.config, wrong, 8),
        "from_variables, features": lambda: Flow.from_variables(flow.config, flow.variables, wrong),
        "flow, config": lambda: Flow(wrong),
        "flow, seed": lambda: Flow(seed=wrong),
        "flow, train": lambda: Flow(train=wrong),
        "flow, progress": lambda: Flow(flow.config, train=flow.train).fit(U, progress=wrong),
        "set_params of no config": lambda: Flow().set_params(config=wrong, config__levels=2),
        "kind": lambda: Whitening(kind=wrong),
        "alpha": lambda: Whitening(alpha=wrong),
        "k": lambda: NATSV(wrong),
        "how": lambda: Reduce(2, how=wrong),
        "steps": lambda: Compose(wrong),
        "steps later": lambda: setattr(Compose([Center()]), "steps", wrong),
        "set_params of steps": lambda: Compose([Center()]).set_params(steps=wrong),
        "log_prob of a compose": lambda: Compose([Center()]).fit(U).log_prob(wrong),
        "load": lambda: load(wrong),
        "from_pretrained": lambda: from_pretrained(wrong),
        "access": lambda: from_pretrained("./none", access=wrong),
        "from_dict": lambda: Config.from_dict(wrong),
        "pure": lambda: PureTransform("x", wrong, {}),
        "sample": lambda: flow.sample(wrong, 3),
        "sample, n": lambda: flow.sample(jax.random.key(0), wrong),
    }
    for fitted in (flow, Standardize().fit(U), Whitening(4).fit(U), Compose([Center()]).fit(U)):
        kind = type(fitted)
        again = Flow(flow.config, train=flow.train) if kind is Flow else fitted
        calls |= {
            f"{kind.__name__}.load": lambda kind=kind: kind.load(wrong),
            f"{kind.__name__}.save": lambda fitted=fitted: fitted.save(wrong),
            f"{kind.__name__}.transform": lambda fitted=fitted: fitted.transform(wrong),
            f"{kind.__name__}.inverse": lambda fitted=fitted: fitted.inverse_transform(wrong),
            f"{kind.__name__}.names": lambda fitted=fitted: fitted.get_feature_names_out(wrong),
            f"{kind.__name__}.get_params": lambda fitted=fitted: fitted.get_params(wrong),
            f"{kind.__name__}.fit": lambda again=again: again.fit(wrong),
            f"{kind.__name__}.fit_examples": lambda again=again: again.fit_examples(U, wrong),
        }
        if hasattr(fitted, "fit_batches"):
            calls[f"{kind.__name__}.fit_batches"] = lambda again=again: again.fit_batches(wrong)
    return calls


@pytest.mark.parametrize("wrong", WRONG, ids=_name)
def test_a_wrong_type_is_an_error_of_ours(flow, wrong, tmp_path, monkeypatch):
    """Bug: AttributeError, IndexError, "the truth value of an array", an array in the message."""
    monkeypatch.chdir(tmp_path)  # "x" is a folder that may be written
    refused = {}
    for what, call in _calls(flow, wrong).items():
        try:
            call()
        except BertFlowError as error:
            refused[what] = str(error)
        except Exception as error:
            pytest.fail(f"{what} raises {error!r}")
    assert all(len(said.splitlines()) <= 2 and len(said) < 700 for said in refused.values())
    assert {"from_variables", "steps", "log_prob of a compose", "kind"} <= set(refused)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Flow.load(U), r"folder=ndarray of shape \[64, 8\]: a path is needed, not ndarray"),
        (lambda: Whitening(kind=U), r"kind=ndarray of shape \[64, 8\]: must be one of pca, zca"),
        (lambda: NATSV(-(10**5000)), "k=<int>: must be an integer >= 1"),
        (
            lambda: Center().fit_batches(3),
            r"batches=3: must be an iterable of arrays float\[n, D\]",
        ),
        (lambda: Center().fit_examples(U, 3), r"rows must be integers \[N, S\]"),
        (lambda: Center().fit_examples(U, [[0, 64]]), r"rows: example 0 names row \[0, 64\]"),
        (lambda: Center().fit(U).get_feature_names_out("abc"), "input_features='abc': must be a"),
        (
            lambda: Flow().set_params(config=3, config__levels=2),
            "config=3 has no fields, and so no",
        ),
        (lambda: Config.from_dict({"flow": {3: 1}}), r"flow=\{3: 1\}: must be a dict of config"),
        (lambda: Compose(3), r"steps=3: must be a list of post-processors"),
        (lambda: Compose([1]), r"steps\[0\]=1: must be a post-processor, as Standardize\(\)"),
        (lambda: Compose("ab"), "steps='ab': must be a list of post-processors"),
        (
            lambda: Compose([Center(), Whitening]),
            r"steps\[1\] is the class Whitening: make an object of it, Whitening\(",
        ),
        (lambda: Compose([Center()]).set_params(steps=[1]), r"steps\[0\]=1: must be a post-p"),
        (lambda: Compose([Center()]).set_params(**{"0": Center}), r"steps\[0\] is the class"),
    ],
)
def test_the_argument_and_its_place_are_named(call, said):
    with pytest.raises((InputError, ConfigError), match=said):
        call()


def test_examples_are_as_their_array():
    """Lists are taken for the array that they are."""
    listed = Standardize().fit_examples(U, [[0, 1], [1, 5]])
    np.testing.assert_array_equal(listed.mean, U[[0, 1, 1, 5]].astype(np.float64).mean(axis=0))
    np.testing.assert_array_equal(Standardize().fit_examples(U, [0, 1, 1, 5]).mean, listed.mean)


def test_variables_of_another_flow_are_refused(flow):
    """Bug: a KeyError of Flax, once something was transformed."""
    wide = FlowConfig(levels=1, depth=1, width=5)
    with pytest.raises(InputError, match=r"variables: 'params/\S+' has shape"):
        Flow.from_variables(wide, flow.variables, 8)
    deep = FlowConfig(levels=1, depth=2, width=4)
    with pytest.raises(InputError, match=r"variables: missing array 'params/"):
        Flow.from_variables(deep, flow.variables, 8)
    with pytest.raises(InputError, match="has shape"):
        Flow.from_variables(flow.config, flow.variables, 6)
    flat = {k: np.asarray(v) for k, v in flatten_dict(flow.variables, sep="/").items()}
    name = min(flat)
    for leaf, said in (
        (np.full_like(flat[name], np.nan), "holds a number that is not finite"),
        (flat[name].astype(complex), "is no array of real numbers but"),
        (flat[name].tolist(), "is no array of real numbers but"),
        (flat[name].astype(object), "is no array of real numbers but"),
    ):
        wrong = unflatten_dict({**flat, name: leaf}, sep="/")
        with pytest.raises(InputError, match=f"variables: '{name}' {said}"):
            Flow.from_variables(flow.config, wrong, 8)
    with pytest.raises(InputError, match=r"variables: \w+ array"):
        Flow.from_variables(flow.config, {**flow.variables, 3: flat[name]}, 8)
    for record in ("", [("a", 1)], U):  # of which dict() makes something, or not
        with pytest.raises(InputError, match=r"fitted_on=.* must be the record of an encoder"):
            Flow.from_variables(flow.config, flow.variables, 8, fitted_on=record)
    same = Flow.from_variables(flow.config, flow.variables, 8)
    np.testing.assert_array_equal(same.transform(U), flow.transform(U))


def test_steps_that_do_not_follow_each_other_name_their_place(tmp_path):
    """Bug: saved and loaded without a word, then "those of the fit had 8" of an unknown step."""
    four, eight = Whitening(4).fit(U), Center().fit(U)
    chain = Compose([four, eight])
    said = r"steps\[1\], a center, was fitted on 8 dimensions, .* a whitening, gives 4; fit them"
    for call in (lambda: chain.transform(U), chain.pure, lambda: chain.save(tmp_path / "chain")):
        with pytest.raises(InputError, match=said):
            call()
    assert not (tmp_path / "chain").exists()
    four.save(tmp_path / "chain" / "0")
    eight.save(tmp_path / "chain" / "1")
    (tmp_path / "chain" / "compose.json").write_text(json.dumps({"steps": 2}))
    with pytest.raises(CheckpointError, match=rf"{tmp_path}/chain: {said}"):
        Compose.load(tmp_path / "chain")
    assert chain.fit(U).transform(U).shape == (64, 4)  # together they follow


def test_what_is_shown_of_a_value():
    class Rude:
        def __repr__(self):
            raise RuntimeError

    assert shown("a\nb") == r"'a\nb'"
    assert shown({"a": [1, 2]}) == "{'a': [1, 2]}"
    assert shown(Rude()) == "<Rude>"
    assert shown(10**5000) == "<int>"
    assert shown("x" * 1000) == "'" + "x" * 499 + "..."
