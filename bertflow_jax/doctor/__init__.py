"""Whether this machine can run the package: `python -m bertflow_jax.doctor`.

`versions.py` packages and their ranges, `places.py` caches, `environment.py` variables,
`devices.py` starts `probe.py`, the only part that loads JAX, as a process of its own: what hangs or
crashes there is told, and ends nothing here. `finding.py` is what each of them returns.
"""
