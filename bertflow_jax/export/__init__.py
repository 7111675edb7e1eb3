"""Encoders as one compiled function for other programs: a folder that needs no bertflow_jax.

`artifact.py` traces and writes it, `load.py` is the loader that every folder gets a copy of,
`__main__.py` the command.
"""
