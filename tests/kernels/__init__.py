"""The CUDA kernels without a GPU: NVRTC compiles them for every architecture, and an interpreter runs their PTX."""
