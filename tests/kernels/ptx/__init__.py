"""An interpreter of the PTX that NVRTC makes of the kernels: checks every access, finds races, counts memory traffic.

Written from NVIDIA's PTX ISA documentation; it knows the instructions that occur in these kernels, and refuses any other.
`compile.py` calls NVRTC, `assembly.py` reads PTX, `machine.py` launches; `*.cpp` and `*.h` execute.
"""
