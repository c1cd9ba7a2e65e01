"""The CUDA kernels without a GPU: compiled by NVRTC for every architecture, and by g++ to run on the host."""
