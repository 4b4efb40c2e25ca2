"""Builds both images and runs them: `make images`. Needs podman, buildah, runc, and mmdebstrap where no registry is
reached; pytest collects none of it by itself."""
