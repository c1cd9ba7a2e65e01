"""Which inputs of operators DirectML's caller has to know before it can build the operator. Literal data; code only looks up."""

from __future__ import annotations

from collections.abc import Mapping

HOST_INPUTS: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),  # size
    "BlackmanWindow": (0,),  # size
    "CenterCropPad": (1,),  # shape
    "Clip": (1, 2),  # min, max: fields of CLIP
    "Col2Im": (1, 2),  # image_shape, block_shape
    "ConstantOfShape": (0,),  # the shape
    "CumProd": (1,),  # axis
    "CumSum": (1,),  # axis
    "DFT": (1, 2),  # dft_length, axis
    "Dropout": (2,),  # training_mode: a condition
    "Expand": (1,),  # shape
    "HammingWindow": (0,),  # size
    "HannWindow": (0,),  # size
    "If": (0,),  # cond
    "Loop": (0, 1),  # M, cond
    "MaxUnpool": (2,),  # output_shape
    "MelWeightMatrix": (0, 1),  # num_mel_bins, dft_length: the output's sizes
    "NonMaxSuppression": (2, 3, 4),  # max_output_boxes_per_class, thresholds: fields of NON_MAX_SUPPRESSION
    "OneHot": (1,),  # depth
    "Pad": (1, 2, 3),  # pads, constant_value, axes: fields of PADDING
    "Range": (0, 1, 2),  # start, limit, delta: fields of FILL_VALUE_SEQUENCE, and its size
    "ReduceL1": (1,),  # axes, as in those that follow
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),  # shape
    "Resize": (1, 2, 3),  # scales; from version 11 on roi, scales, sizes: fields of RESAMPLE
    "STFT": (1, 3),  # frame_step, frame_length
    "SequenceAt": (1,),  # position
    "SequenceErase": (1,),  # position
    "SequenceInsert": (2,),  # position
    "Slice": (1, 2, 3, 4),  # starts, ends, axes, steps
    "Split": (1,),  # split
    "SplitToSequence": (1,),  # split
    "Squeeze": (1,),  # axes
    "Tile": (1, 2),  # repeats; in version 1 tiles, axis
    "TopK": (1,),  # K
    "Trilu": (1,),  # k
    "Unsqueeze": (1,),  # axes
    "Upsample": (1,),  # scales
    "com.microsoft.ConvTransposeWithDynamicPads": (2,),  # Pads
    "com.microsoft.CropAndResize": (3,),  # crop_size
    "com.microsoft.ExpandDims": (1,),  # axis
    "com.microsoft.GroupQueryAttention": (6,),  # total_sequence_length
    "com.microsoft.Pad": (1, 2, 3),  # pads, value, axes
    "com.microsoft.Trilu": (1,),  # k
}
"""The numbers of the inputs that decide shapes, bounds, axes, repeats, counts or conditions, by operator, for all its versions:
the fields of DirectML's operator, the sizes of its tensors, and which operators run at all.

Indices, masks and lengths that DirectML reads from tensors are not among them. Source: the operators' texts in ONNX and in
onnxruntime's contrib operators, and the structures of directml.h.
"""

UNREAD_INPUTS: Mapping[str, tuple[int, ...]] = {
    "CastLike": (1,),
    "OptionalHasElement": (0,),
    "SequenceLength": (0,),
    "Shape": (0,),
    "Size": (0,),
}
"""The numbers of the inputs of which an operator reads type, shape or length, but no element."""
