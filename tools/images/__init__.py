"""Images: each built once by its Containerfile into an OCI archive in the cache, anew only when its inputs change.

`build("gate")["gate"]` is an `Image`: its `ref`, `localhost/gpu-runtime/gate@sha256:…`, is what a pod says once
`archive` was imported into the node's containerd. An image is a row of `tools.images.recipes`: a folder with a
Containerfile, which is the build context. There it finds `parts/<part>/…`, files made by other means, and as build
arguments the images that it stands on, for example::

    ARG BASE
    ARG FRP
    FROM ${FRP} AS frp
    FROM ${BASE}
    COPY --from=frp /usr/bin/frpc /usr/bin/frpc

`gate` gets BASE (the image `python`: Debian with bash and Python's standard library), `tunnel` gets BASE and FRP (the
image `frp`: /usr/bin/frps and /usr/bin/frpc). Nothing may depend on the clock: what is built twice is the same twice.
"""

from tools.images.build import Image, build, catalogue, push
from tools.images.recipes import RECIPES

NAMES = tuple(RECIPES)
"""What can be built."""

__all__ = ["NAMES", "Image", "build", "catalogue", "push"]
