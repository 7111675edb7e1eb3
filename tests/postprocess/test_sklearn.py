"""Post-processors as scikit-learn transformers: its own checks, its tools, and its numbers."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

from bertflow_jax import (
    NATSV,
    Compose,
    Flow,
    FlowConfig,
    Reduce,
    Standardize,
    TrainConfig,
    Whitening,
)
from bertflow_jax.errors import BertFlowError, ConfigError, InputError
from bertflow_jax.postprocess import Center

pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

TINY = FlowConfig(levels=1, depth=1, width=4)
SHORT = TrainConfig(steps=3, batch_size=8)
# What is left of scikit-learn's checks, each with the reason.
EXPECTED = {
    "check_n_features_in_after_fitting": "the error is there, in other words than the check wants",
    "check_dtype_object": "an array of Python objects is refused, not converted number by number",
}
IN_CONSTRUCTOR = {
    "check_do_not_raise_errors_in_init_or_set_params": "an impossible argument is refused at once"
}
ONE_DIRECTION = {"check_fit2d_1feature": "nothing is left of one dimension without one direction"}
# Of a flow, whose fits take a second each, the checks that the affine maps do not stand for.
OF_A_FLOW = (
    "check_estimator_cloneable",
    "check_no_attributes_set_in_init",
    "check_fit_score_takes_y",
    "check_dont_overwrite_parameters",
    "check_estimators_unfitted",
    "check_estimators_pickle",
    "check_dict_unchanged",
)


def expected(estimator):
    if isinstance(estimator, Standardize):
        return EXPECTED
    more = ONE_DIRECTION if isinstance(estimator, NATSV) else {}
    return {**EXPECTED, **IN_CONSTRUCTOR, **more}


def rows(n=200, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + np.arange(d)


@pytest.mark.filterwarnings("ignore:.*occurred during set_params")
@parametrize_with_checks(
    [Standardize(), Whitening(), NATSV()],
    expected_failed_checks=expected,
)
def test_scikit_learns_own_checks(estimator, check):
    """Anything that makes `Pipeline`, `clone` or a search go wrong in a way known there."""
    check(estimator)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_of_a_flow():
    """Attributes that a fit adds or changes under public names, or a score that takes no y."""
    done = []
    for estimator, check in estimator_checks_generator(Flow(TINY, train=SHORT)):
        name = check.func.__name__
        if name in OF_A_FLOW and "readonly_memmap" not in check.keywords:
            check(estimator)
            done.append(name)
    assert sorted(done) == sorted(OF_A_FLOW)


def test_a_flow_that_has_been_used_can_be_pickled():
    """Compiled functions beside the parameters: joblib's workers could not hand a flow back."""
    flow = Flow(TINY, train=SHORT).fit(rows(20))
    z = flow.transform(rows(20))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(flow)).transform(rows(20)), z)


def test_numbers_of_scikit_learn():
    """n - 1 in place of n, or another order or scale of the directions."""
    u, new = rows(), rows(50, seed=1)
    np.testing.assert_allclose(
        Standardize().fit(u).transform(new), StandardScaler().fit(u).transform(new), rtol=2e-5
    )
    theirs = PCA(whiten=True).fit(u).transform(new) * np.sqrt(len(u) / (len(u) - 1))
    np.testing.assert_allclose(np.abs(Whitening().fit(u).transform(new)), np.abs(theirs), atol=1e-4)


def test_cross_validation_scores_by_the_density():
    """A score of the rows that were fitted on, a sum in place of the mean, or z's density."""
    u, folds = rows(), KFold(4, shuffle=True, random_state=0)
    scores = cross_val_score(Whitening(), u, cv=folds)
    for score, (fitted, held_out) in zip(scores, folds.split(u), strict=True):
        gauss = scipy.stats.multivariate_normal(
            u[fitted].mean(axis=0), np.cov(u[fitted].T, bias=True)
        )
        assert score == pytest.approx(gauss.logpdf(u[held_out]).mean(), rel=1e-5)


def test_a_search_in_a_pipeline_finds_the_number_of_directions():
    """A `set_params` that does not reach k, so that every candidate is the same fit."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(300, 6)) * [9, 8, 7, 6, 1, 1]
    labels = (u[:, 3] > 0).astype(int)  # the fourth direction tells
    pipeline = Pipeline([("whiten", Whitening()), ("classify", LogisticRegression())])
    search = GridSearchCV(pipeline, {"whiten__k": [1, 2, 4]}, cv=3).fit(u, labels)
    assert search.best_params_ == {"whiten__k": 4}
    by_k = dict(zip([1, 2, 4], search.cv_results_["mean_test_score"], strict=True))
    assert by_k[2] < 0.65 < 0.9 < by_k[4]
    assert "Whitening" in search.best_estimator_._repr_html_()


def test_a_search_over_fields_of_a_flow():
    search = GridSearchCV(
        make_pipeline(Standardize(), Flow(TINY, train=SHORT)),
        {"flow__config__coupling": ["additive", "affine"], "flow__train__steps": [2]},
        cv=[(np.arange(40), np.arange(40, 60))],
    ).fit(rows(60))
    best = search.best_estimator_.named_steps["flow"]
    assert best.config.coupling == search.best_params_["flow__config__coupling"]
    assert (best.train.steps, best.train.batch_size, best.config.width) == (2, 8, 4)
    z = search.best_estimator_.named_steps["standardize"].transform(rows(9, seed=1))
    expected = np.mean(best.log_prob(z))
    assert search.score(rows(9, seed=1)) == pytest.approx(expected, rel=1e-6)


def test_a_clone_shares_nothing():
    """A search that changes the config of every copy, the user's included."""
    flow = Flow(FlowConfig(depth=2), seed=7, train=SHORT)
    copy = clone(flow).set_params(config__depth=1, train__steps=9)
    assert (flow.config.depth, flow.train.steps) == (2, 3)
    assert (copy.config.depth, copy.train.steps, copy.seed) == (1, 9, 7)
    config = FlowConfig()
    Flow(config).set_params(config__width=5)
    assert config.width == 32
    fitted = Compose([Standardize(), NATSV(2)]).fit(rows())
    again = clone(fitted)
    assert [step.features for step in again.steps] == [None, None]
    again.set_params(**{"1__k": 3})
    assert (fitted.steps[1].k, again.steps[1].k) == (2, 3)
    again.set_params(**{"1": Reduce(4), "1__how": "truncate"})
    assert repr(again) == "Compose(steps=(Standardize(), Reduce(k=4, how='truncate')))"
    np.testing.assert_array_equal(again.fit(rows()).transform(rows()).shape, (200, 4))


def test_a_config_that_is_used_again_changes_no_fitted_flow(tmp_path):
    """One config object changed for the next flow: the first one's variables run in its shape."""
    config, train = FlowConfig(levels=1, depth=2, width=4), TrainConfig(steps=3, batch_size=8)
    fitted = Flow(config, train=train).fit(rows())
    imported = Flow.from_variables(config, fitted.variables, fitted.features)
    expected = fitted.transform(rows())
    config.depth, train.steps = 1, 4
    for flow in (fitted, imported):
        np.testing.assert_array_equal(flow.transform(rows()), expected)
        np.testing.assert_allclose(
            flow.pure().transform(flow.variables, rows().astype(np.float32)), expected, atol=1e-5
        )
    fitted.save(tmp_path)
    np.testing.assert_array_equal(Flow.load(tmp_path).transform(rows()), expected)
    assert Flow.load(tmp_path).train.steps == 3


def test_changed_parameters_end_a_fit(tmp_path):
    """A folder that says k=3 of a map to two dimensions."""
    whitening = Whitening(k=2).fit(rows())
    whitening.set_params(k=2)
    check_is_fitted(whitening)
    whitening.set_params(k=3)
    with pytest.raises(NotFittedError):
        whitening.save(tmp_path)
    assert whitening.fit(rows()).transform(rows()).shape == (200, 3)


def test_wrong_parameters_change_nothing():
    whitening = Whitening(k=2).fit(rows())
    with pytest.raises(ConfigError, match="no parameter 'n_components'; it has k, alpha, kind"):
        whitening.set_params(n_components=3)
    with pytest.raises(InputError, match="alpha=2"):
        whitening.set_params(k=3, alpha=2)
    assert repr(whitening) == "Whitening(k=2)"
    check_is_fitted(whitening)
    with pytest.raises(ConfigError, match="Flow has no parameter 'config__heads'"):
        Flow().set_params(config__heads=3)
    with pytest.raises(
        ConfigError, match="Compose has no parameter '2__k'; it has steps, 0, 1, 1__k"
    ):
        Compose([Standardize(), NATSV()]).set_params(**{"2__k": 3})


class Noted(Compose):
    """With an argument of its own."""

    def __init__(self, steps, note=""):
        super().__init__(steps)
        self.note = note


def test_a_compose_of_ones_own_class_keeps_its_arguments():
    """KeyError from repr, and so from save_pretrained; `clone` left the argument out."""
    noted = Noted([Standardize(), Whitening(4)], note="ours")
    assert repr(noted) == "Noted(steps=(Standardize(), Whitening(k=4)), note='ours')"
    again = clone(noted)
    assert (again.note, again.get_params()["1__k"]) == ("ours", 4)
    again.set_params(**{"note": "theirs", "1__k": 3})
    assert repr(again) == "Noted(steps=(Standardize(), Whitening(k=3)), note='theirs')"
    with pytest.raises(ConfigError, match="no parameter 'notes'; it has steps, note, 0, 1"):
        again.set_params(notes=1)
    assert again.note == "theirs"


def test_repr_is_the_call_that_makes_it():
    assert repr(Whitening(4, kind="zca")) == "Whitening(k=4, kind='zca')"
    assert repr(Standardize()) == "Standardize()"
    flow = Flow(FlowConfig(levels=2), train=TrainConfig(epochs=2.0))
    assert repr(flow) == "Flow(config=FlowConfig(levels=2), train=TrainConfig(epochs=2.0))"


@pytest.mark.parametrize("kind", [Whitening, Flow, lambda: Compose([Standardize()])])
def test_not_fitted_is_an_error_of_both(kind):
    """An `except NotFittedError` of a program with scikit-learn that never catches ours."""
    for catch in (NotFittedError, BertFlowError, ValueError):
        with pytest.raises(catch, match="not fitted yet") as caught:
            kind().transform(rows())
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, NotFittedError)
    assert str(again) == str(caught.value)


def test_only_what_has_a_density_has_a_score():
    """A search that takes an error for the score of every candidate."""
    having = [
        p
        for p in (Standardize(), Whitening(), Whitening(3), NATSV(), Center(), Flow())
        if hasattr(p, "score")
    ]
    assert list(map(repr, having)) == ["Standardize()", "Whitening()", "Flow()"]
    with pytest.raises(InputError, match=r"NATSV\(\) has no score_samples.*scoring"):
        NATSV().fit(rows()).score_samples(rows())
    fitted = Standardize().fit(rows())
    np.testing.assert_array_equal(fitted.score_samples(rows()), fitted.log_prob(rows()))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [Standardize, lambda: Flow(TINY, train=SHORT)])
def test_no_row_has_no_score(kind):
    """NaN, and numpy's warning, as the score of a fold without rows."""
    with pytest.raises(InputError, match=r"0 sample\(s\) \(shape=\(0, 6\)\).*no mean"):
        kind().fit(rows()).score(rows()[:0])


def test_columns_of_another_order_are_refused():
    """Dimensions that change places between two tables, without a word."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rows(), columns=[f"d{i}" for i in range(6)])
    for processor in (Standardize(), Compose([Center(), NATSV()]), Flow(TINY, train=SHORT)):
        processor.fit(table)
        assert list(processor.feature_names_in_) == list(table.columns)
        np.testing.assert_array_equal(
            processor.transform(table), processor.transform(table.to_numpy())
        )
        with pytest.raises(InputError, match="same order as they were in fit"):
            processor.transform(table[table.columns[::-1]])
        processor.fit(table.to_numpy())
        assert not hasattr(processor, "feature_names_in_")
        processor.transform(table[table.columns[::-1]])


def test_names_of_the_output():
    whitening = Whitening(2).fit(rows())
    assert list(whitening.get_feature_names_out()) == ["whitening0", "whitening1"]
    assert list(Standardize().fit(rows()).get_feature_names_out()) == [f"x{i}" for i in range(6)]
    with pytest.raises(InputError, match=r"equal to number of features \(6\), got 1"):
        whitening.get_feature_names_out(["a"])


def test_inputs_of_all_forms_give_the_same_numbers():
    """Fortran order or lists that are read transposed, or float32 statistics of float64 rows."""
    u = rows().astype(np.float32)
    expected = Whitening().fit(u).transform(u)
    pandas = pytest.importorskip("pandas")
    for form in (np.asfortranarray(u), u.tolist(), pandas.DataFrame(u), u[::-1][::-1]):
        np.testing.assert_allclose(Whitening().fit_transform(form), expected, rtol=1e-6, atol=1e-6)
    u[17, 2] = np.nan
    with pytest.raises(InputError, match="embedding row 17 is not finite"):
        Whitening().fit(pandas.DataFrame(u))


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_nullable_columns_are_numbers(backend):
    """A table of pandas' nullable types is refused as one of Python objects."""
    pandas = pytest.importorskip("pandas")
    if backend == "pyarrow":
        pytest.importorskip("pyarrow")
    u = rows()
    u[:, 0] = np.rint(u[:, 0])
    table = pandas.DataFrame(u).convert_dtypes(dtype_backend=backend)
    assert np.asarray(table).dtype == object
    np.testing.assert_array_equal(Whitening().fit_transform(table), Whitening().fit_transform(u))
    table.iloc[17, 2] = None
    with pytest.raises(InputError, match="embedding row 17 is not finite"):
        Whitening().fit(table)


def test_scikit_learn_is_not_loaded_by_a_fit():
    """An import of an optional package on the way."""
    program = (
        "import sys, numpy as np\n"
        "from bertflow_jax.postprocess import Compose, Flow, Reduce, Standardize, load\n"
        "u = np.random.default_rng(0).normal(size=(9, 4))\n"
        "print(Compose([Standardize(), Reduce(2)]).fit_transform(u).shape)\n"
        "print([m for m in ('sklearn', 'torch', 'pyarrow', 'pandas') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "(9, 2)\n[]\n", done.stderr
