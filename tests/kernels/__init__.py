"""The CUDA kernels without a GPU: compiled by NVRTC for every architecture, and run as PTX in an interpreter."""
