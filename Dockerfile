# docker build --tag clustersim .
# docker run --rm --volume "$PWD:/work" --user "$(id -u):$(id -g)" clustersim run firecaffe-googlenet
#
# BASE: an image with Python 3.11 or newer as `python`, with its module venv.
ARG BASE=python:3.11-slim

# hadolint ignore=DL3006
FROM ${BASE}
RUN --mount=type=bind,target=/source \
    python -m venv /opt/clustersim \
    && /opt/clustersim/bin/pip install --no-cache-dir --disable-pip-version-check --constraint /source/constraints.txt /source \
    && mkdir --mode=1777 /work
ENV PATH=/opt/clustersim/bin:$PATH HOME=/tmp
USER 1000:1000
WORKDIR /work
VOLUME /work
ENTRYPOINT ["clustersim"]
CMD ["--help"]
