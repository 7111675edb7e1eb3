"""The JSON files of saved post-processors with a value that they cannot have: said in our words."""

import json
import re

import numpy as np
import pytest

from bertflow_jax import Compose, Flow, FlowConfig, Reduce, Standardize, Whitening
from bertflow_jax.errors import BertFlowError, CheckpointError
from bertflow_jax.flow.glow import init_variables
from bertflow_jax.postprocess import Center, load

U = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
SHAPE = FlowConfig(levels=1, depth=1, width=4)
MADE = {
    "flow": Flow.from_variables(SHAPE, init_variables(SHAPE, 8, 0), 8),
    "center": Center().fit(U),
    "whitening": Whitening(k=4).fit(U),
    "reduce": Reduce(4).fit(U),
    "compose": Compose([Standardize(), Whitening(2)]).fit(U),
}
GONE = object()
VALUES = [None, 3, -1, 10**30, 1.5, True, "abc", "", [], [1], ["a"], {}, {"a": 1}, GONE]
# What Python, and no page of ours, says.
PYTHON = re.compile(
    r"unexpected keyword|takes no arguments|positional argument|must be a mapping|not subscriptable"
    r"|not iterable|has no attribute|unsupported operand|indices must be|C long|\(['\"]\w+['\"]\)"
)


def changed(content, path, value):
    """Return a copy with another value at a path of keys."""
    key, *inside = path
    if not inside and value is GONE:
        return {name: old for name, old in content.items() if name != key}
    return {**content, key: changed(content[key], inside, value) if inside else value}


def paths(content):
    for key, value in content.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *rest) for rest in paths(value))


@pytest.mark.parametrize("kind", MADE)
def test_no_value_is_told_in_the_words_of_python(kind, tmp_path):
    """Bug: "Center() takes no arguments", "unsupported operand type(s) for >>", "('features')"."""
    MADE[kind].save(tmp_path)
    file = next(tmp_path.glob("*.json"))
    good = json.loads(file.read_text())
    before = MADE[kind].transform(U)
    refused = []
    for content in (
        *(changed(good, path, value) for path in paths(good) for value in VALUES),
        *(changed(good, (*path[:-1], "extra"), 1) for path in paths(good)),
        *VALUES[:-1],
    ):
        file.write_text(json.dumps(content))
        try:
            loaded = load(tmp_path)
        except BertFlowError as error:
            refused.append(str(error))
        else:
            np.testing.assert_array_equal(loaded.transform(U), before)
    assert len(refused) > 10
    assert [said for said in refused if PYTHON.search(said) or str(tmp_path) not in said] == []


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("center", ("settings", "k"), 4, "postprocess.json: a center has no 'k')"),
        ("reduce", ("settings", "k"), GONE, "postprocess.json: a reduce needs 'k')"),
        ("whitening", ("settings",), [1], "postprocess.json: settings=[1]: must be an object)"),
        ("whitening", ("shapes", "mean"), 5, "the shape of mean is 5, not a list of integers >= 0"),
        ("whitening", ("shapes",), GONE, "(postprocess.json has no 'shapes')"),
        ("whitening", ("kind",), GONE, "postprocess.json is not readable (postprocess.json has no"),
        ("flow", ("features",), "x", "(features='x': must be an integer >= 1)"),
        ("flow", ("features",), 10**30, "must be at most 2147483647)"),
        ("flow", ("flow",), None, "(flow=None: must be a dict of config fields by name)"),
        ("flow", ("flow", "a"), 1, "(unknown config field(s): flow.a)"),
        ("flow", ("train",), GONE, "(flow_config.json has no 'train')"),
        ("compose", ("steps",), GONE, "compose.json is not readable (compose.json has no 'steps')"),
    ],
)
def test_the_entry_is_named(kind, path, value, said, tmp_path):
    MADE[kind].save(tmp_path)
    file = next(tmp_path.glob("*.json"))
    file.write_text(json.dumps(changed(json.loads(file.read_text()), path, value)))
    with pytest.raises(CheckpointError, match=re.escape(said)):
        load(tmp_path)
    file.write_text("{")
    with pytest.raises(CheckpointError, match=rf"{file.name}: not valid JSON \("):
        load(tmp_path)
