"""Writes the checkpoint beside this file with TensorFlow's own writer (made with tensorflow-cpu 2.21).

    pip install tensorflow-cpu && python make.py

A BERT of one layer and a flow of one step (affine, plu, gatu) under the released names, moments of
the optimiser, a pre-training head and a counter, in two data files. Values follow from `value`, so
that a test can check every one without TensorFlow. The test does not run this file.
"""

from pathlib import Path

import numpy as np

D, VOCAB, POSITIONS, INNER, WIDTH = 4, 8, 8, 6, 3


def shapes():
    """Return {name: shape} of the float32 variables."""
    bert, layer = "bert/embeddings", "bert/encoder/layer_0"
    found = {
        f"{bert}/word_embeddings": (VOCAB, D),
        f"{bert}/position_embeddings": (POSITIONS, D),
        f"{bert}/token_type_embeddings": (2, D),
    }
    dense = {
        f"{layer}/attention/self/query": (D, D),
        f"{layer}/attention/self/key": (D, D),
        f"{layer}/attention/self/value": (D, D),
        f"{layer}/attention/output/dense": (D, D),
        f"{layer}/intermediate/dense": (D, INNER),
        f"{layer}/output/dense": (INNER, D),
        "bert/pooler/dense": (D, D),
    }
    for name, shape in dense.items():
        found |= {f"{name}/kernel": shape, f"{name}/bias": shape[1:]}
    for name in (bert, f"{layer}/attention/output", f"{layer}/output"):
        found |= {f"{name}/LayerNorm/gamma": (D,), f"{name}/LayerNorm/beta": (D,)}
    step = "bert/flow/revnet_0/revnet_step_0"
    norms = {f"{step}/": D}
    for name, inp in (("1_1", D // 2), ("1_tanh", WIDTH), ("1_sigm", WIDTH)):
        block = f"{step}/affine/nn/conv_block/{name}/"
        found[f"{block}W"] = (1, 1, inp, WIDTH)
        norms[block] = WIDTH
    for start, size in norms.items():
        found[f"{start}actnorm/actnorm_center/b"] = (1, 1, 1, size)
        found[f"{start}actnorm/actnorm_scale/logs"] = (1, 1, 1, size)
    found |= {f"{step}/invertible/{name}": (D, D) for name in "PLU"}
    found |= {f"{step}/invertible/{name}": (D,) for name in ("sign_S", "log_S")}
    last = f"{step}/affine/nn/zeros/"
    found |= {f"{last}W": (1, 1, WIDTH, D), f"{last}b": (1, 1, 1, D), f"{last}logs": (1, D)}
    found["bert/pooler/dense/bias/adam_m"] = found["bert/pooler/dense/bias/adam_v"] = (D,)
    found["cls/seq_relationship/output_bias"] = (2,)
    return found


def value(name, shape):
    """Return float32 values that follow from the name; P is a permutation, sign_S are signs."""
    if name.endswith("/P"):
        return np.eye(D, dtype=np.float32)[[2, 0, 3, 1]]
    if name.endswith("/sign_S"):
        return np.array([1, -1, -1, 1], np.float32)
    start = sum(name.encode())
    numbers = (37 * np.arange(np.prod(shape)) + start) % 101 - 50
    return (numbers.reshape(shape) / 64).astype(np.float32)


def main():
    """Write two files with SaveV2 and merge them into one checkpoint."""
    import tensorflow as tf

    folder = Path(__file__).parent
    tensors = {name: value(name, shape) for name, shape in shapes().items()}
    tensors["global_step"] = np.array(269, np.int64)
    parts = [str(folder / f"part{i}") for i in range(2)]
    for i, part in enumerate(parts):
        chosen = dict(sorted(tensors.items())[i::2])
        tf.raw_ops.SaveV2(
            prefix=part,
            tensor_names=list(chosen),
            shape_and_slices=[""] * len(chosen),
            tensors=list(chosen.values()),
        )
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=str(folder / "model.ckpt-269")
    )


if __name__ == "__main__":
    main()
