// Runs of bytes at any alignment. Entry points: rows of dmlgather/backends/cuda/variants.py; `ci/kernels --write` writes this file.
#include "span.cuh"

SPAN(span_d3, 3, 0, 4, false)
SPAN(span_d2_k1_i4_clamp, 2, 1, 4, false)
SPAN(span_d2_k1_i4_checked, 2, 1, 4, true)
SPAN(span_d2_k1_i8_clamp, 2, 1, 8, false)
SPAN(span_d2_k1_i8_checked, 2, 1, 8, true)
SPAN(span_d3_k1_i4_clamp, 3, 1, 4, false)
SPAN(span_d3_k1_i4_checked, 3, 1, 4, true)
SPAN(span_d3_k1_i8_clamp, 3, 1, 8, false)
SPAN(span_d3_k1_i8_checked, 3, 1, 8, true)
SPAN(span_d3_k2_i4_clamp, 3, 2, 4, false)
SPAN(span_d3_k2_i4_checked, 3, 2, 4, true)
SPAN(span_d3_k2_i8_clamp, 3, 2, 8, false)
SPAN(span_d3_k2_i8_checked, 3, 2, 8, true)
