# bertflow_jax in a container, for a CPU:
#   docker build -t bertflow .
# or for a GPU (docs/gpu.md):
#   docker build -t bertflow:cuda12 --build-arg JAX=cuda12 .
#
#   mkdir -p runs
#   docker run --init --rm -v "$PWD/runs:/app/runs" bertflow \
#       train --config=configs/demo.py --workdir=runs/demo
#   docker run --init --rm -v "$PWD/runs:/app/runs" bertflow \
#       evaluate --workdir=runs/demo --tasks=everyday
#   docker run --init --rm --gpus all -v ... bertflow:cuda12 \
#       embed --workdir=runs/demo --input=... --output=...

FROM python:3.11-slim AS build
# An extra of jax, such as cuda12; empty for a CPU.
ARG JAX=
WORKDIR /src
RUN python -m venv /opt/venv
# Before the package itself: a change of the code then installs no dependency anew. pyarrow is its
# extra `parquet`.
COPY requirements.txt .
RUN /opt/venv/bin/pip install --no-cache-dir "pyarrow>=17,<27" -r requirements.txt \
    ${JAX:+"jax[$JAX]"}
COPY pyproject.toml README.md LICENSE ./
COPY bertflow_jax bertflow_jax
# pip has no use afterwards.
RUN /opt/venv/bin/pip install --no-cache-dir --no-deps . && /opt/venv/bin/pip uninstall --yes pip

FROM python:3.11-slim
RUN useradd --create-home --uid 1000 bertflow \
    && install --directory --owner=bertflow --group=bertflow /app /app/runs /home/bertflow/.cache
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
COPY train.py evaluate.py ./
COPY configs configs
COPY scripts/docker_entry.sh /usr/local/bin/bertflow
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/home/bertflow/.cache/huggingface \
    BERTFLOW_COMPILATION_CACHE=/home/bertflow/.cache/xla \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000:1000
ENTRYPOINT ["/usr/local/bin/bertflow"]
CMD ["--help"]
