"""Builds both images and runs them: `make images`. Needs podman, buildah and runc, and also mmdebstrap if no image
registry can be reached. pytest collects these tests only if their file is named."""
