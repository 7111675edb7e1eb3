"""Environment variables that change what the package does; what is secret is not shown."""

import os
import re
from collections.abc import Mapping

from bertflow_jax.doctor.finding import Finding

_NAMES = re.compile(
    r"JAX_\w+|BERTFLOW_\w+|XLA_\w+|TF_CPP_\w+|CUDA_\w+|NVIDIA_\w+|TPU_\w+|LIBTPU_\w+|HF_\w+|"
    r"HUGGING_FACE_\w+|TRANSFORMERS_\w+|TOKENIZERS_\w+|TFDS_\w+|GOOGLE_\w+|STORAGE_EMULATOR_HOST|"
    r"SLURM_(?:JOB_ID|NTASKS|PROCID|NODELIST)|OMPI_\w+|OMP_NUM_THREADS|(?:HTTPS?|NO)_PROXY|"
    r"SSL_CERT_FILE|XDG_CACHE_HOME|HOME|TMPDIR|LD_LIBRARY_PATH|PYTHONPATH",
    re.IGNORECASE,
)
# A path of a file with a secret is none; TOKENIZERS_PARALLELISM is none either.
_SECRET = re.compile(r"TOKEN(?!IZERS|_PATH)|SECRET|PASSW|API_?KEY|_KEY$", re.IGNORECASE)
# JAX's switches under which nothing works as it is measured and tested.
_UNWANTED = {
    "JAX_ENABLE_X64": "makes JAX compute in float64 where this package asks for nothing else",
    "JAX_DISABLE_JIT": "runs everything uncompiled, many times slower",
}


def find_environment(variables: Mapping[str, str] = os.environ) -> list[Finding]:
    """Return the variables that matter, in the order of their names."""
    return [
        Finding("environment", name, _shown(name, value), _problem(name, value))
        for name, value in sorted(variables.items())
        if _NAMES.fullmatch(name)
    ]


def _shown(name: str, value: str) -> str:
    if _SECRET.search(name):
        return "set" if value else "set, but empty"
    # Addresses may hold a name and a password.
    return re.sub(r"(://)[^/@\s]+@", r"\1...@", value)


def _problem(name: str, value: str) -> str:
    if name not in _UNWANTED or value.strip().lower() not in ("1", "true", "yes", "on", "y", "t"):
        return ""
    return f"{name}={value} {_UNWANTED[name]}: unset it"
