"""Normal forms of the layers of networks: products, convolutions, norms, attention."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt

import numpy as np

from dmlgather.dialects.forms import Form
from dmlgather.dialects.index_graph import Opaque
from dmlgather.dialects.problem import TensorType


def _linear(form: Form) -> str:
    """X · wᵀ + b; w: [outputs, inputs]."""
    x, weight = form.inputs[:2]
    product = form.do("matmul", x, form.turned(weight), shape=form.result.shape)
    return form.affine(product, None, form.optional(2))


def _gemm(form: Form) -> str:
    """Alpha · a · b + beta · c. Factors other than 1 stay, with the operator."""
    a, b = (
        form.turned(value) if form[turned] else value for value, turned in zip(form.inputs, ("trans_a", "trans_b"), strict=False)
    )
    c = form.optional(2)
    if c is None or form["alpha"] == form["beta"] == 1:
        product = form.do("matmul", a, b, shape=form.result.shape)
        factor = None if form["alpha"] == 1 else form.number(form["alpha"])
        return form.affine(product, factor, c)
    rest = (("alpha", form["alpha"]), ("beta", form["beta"]))
    return form.kept(Opaque("gemm", rest), [a, b, *form.inputs[2:]])


def _matmul(form: Form) -> str | None:
    """[m, k] · [k, n], or [b, m, k] · [b, k, n]: one right factor multiplies all rows; batches are one dimension."""
    a, b = form.inputs
    one, two = form.type(a), form.type(b)
    if one.rank < 1 or two.rank < 1 or one.shape[-1] != two.shape[max(0, two.rank - 2)]:
        return None
    a = form.reshaped(a, (1, *one.shape)) if one.rank == 1 else a
    b = form.reshaped(b, (*two.shape, 1)) if two.rank == 1 else b
    (*batch, rows, length), (*other, _, columns) = form.type(a).shape, form.type(b).shape
    if prod(other) == 1:
        batches: tuple[int, ...] = ()
        rows *= prod(batch)
    else:
        whole = np.broadcast_shapes(tuple(batch), tuple(other))
        a = form.graph.expanded(f"{form.name}: left", a, (*whole, rows, length))
        b = form.graph.expanded(f"{form.name}: right", b, (*whole, length, columns))
        batches = (prod(whole),)
    a, b = form.reshaped(a, (*batches, rows, length)), form.reshaped(b, (*batches, length, columns))
    product = TensorType((*batches, rows, columns), form.result.dtype)
    return form.reshaped(form.kept(Opaque("matmul"), (a, b), product), form.result.shape)


def _einsum(form: Form) -> str | None:
    """Letters by their first appearance, ellipses written out, and an output that is stated."""
    stated = einsum_equation(form["equation"], [form.type(value).rank for value in form.inputs])
    if stated is None:
        return None
    return form.kept(Opaque("einsum", (("equation", stated),)))


def einsum_equation(equation: str, ranks: Sequence[int]) -> str | None:
    """An equation of Einsum in one form; None where it does not fit operands of these ranks.

    >>> from dmlgather.dialects.layer_forms import einsum_equation
    >>> einsum_equation("b i d, b j d -> b i j", [3, 3]), einsum_equation("...k,k", [2, 1])
    ('abc,adc->abd', 'ab,b->a')
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=False)]
    if len(terms) != len(ranks) or any(
        count < 0 or (count and "..." not in term) for count, term in zip(hidden, terms, strict=True)
    ):
        return None
    if not arrow and left != left.lower():  # libraries need not sort capitals alike
        return None
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        right = ("..." if "..." in left else "") + "".join(
            sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        )
    most = max(hidden, default=0)
    signs = [chr(0x100 + number) for number in range(most)]  # no letter of an equation
    full = [term.replace("...", "".join(signs[most - count :])) for term, count in zip(terms, hidden, strict=True)]
    output = right.replace("...", "".join(signs))
    names: dict[str, str] = {}
    for letter in "".join(full):
        names.setdefault(letter, string.ascii_letters[len(names) % 52])
    if len(names) > 52 or any(letter not in names for letter in output):
        return None
    return f"{','.join(''.join(map(names.__getitem__, term)) for term in full)}->{''.join(map(names.__getitem__, output))}"


def _with_bias(operator: str) -> Callable[[Form], str | None]:
    """A convolution, and then its bias, one for each channel: dimension 1."""

    def form_of(form: Form) -> str | None:
        if len(form.inputs) < 3:
            return None
        plain = form.do(operator, *form.inputs[:2], shape=form.result.shape, **form.attributes)
        return form.affine(plain, None, form.reshaped(form.inputs[2], per_channel(form.result)))

    return form_of


def per_channel(tensor: TensorType) -> tuple[int, ...]:
    """The shape of one number for each channel of a tensor: dimension 1."""
    return (tensor.shape[1], *[1] * (tensor.rank - 2))


def _standardised(form: Form, rows: int) -> str:
    """(x - mean) / √(variance + epsilon) of each of so many rows of equal length, in x's shape."""
    shape = form.result.shape
    flat = form.reshaped(form.inputs[0], (rows, prod(shape) // max(rows, 1)))
    return form.reshaped(form.do("standardise", flat, epsilon=form["epsilon"]), shape)


def _layer_norm(form: Form) -> str:
    """Rows are all dimensions before `axis`; scale and offset have the dimensions from there on."""
    rows = prod(form.result.shape[: form["axis"]])
    return form.affine(_standardised(form, rows), form.optional(1), form.optional(2))


def _skip_layer_norm(form: Form) -> str:
    """Of the sum of the first two inputs."""
    total = form.do("add", *form.inputs[:2])
    return form.do("layer_norm", total, *form.inputs[2:], shape=form.result.shape, **form.attributes)


def _activated(form: Form) -> str:
    """A layer, and then a function of each element."""
    layer = form.do(form["of"], *form.inputs, shape=form.result.shape, **dict(form["attributes"]))
    return form.do(form["activation"], layer)


def _group_norm(form: Form) -> str:
    """Rows are groups of channels of one item each; scale and offset have a number for each channel."""
    rows = form.result.shape[0] * form["groups"]
    scale, offset = (
        None if each is None else form.reshaped(each, per_channel(form.result)) for each in map(form.optional, (1, 2))
    )
    return form.affine(_standardised(form, rows), scale, offset)


def _rms_norm(form: Form) -> str:
    """X · 1 / √(mean of x² + epsilon), over the dimensions from `axis` on."""
    x, shape, axis = form.inputs[0], form.result.shape, form["axis"]
    kept = (*shape[:axis], *[1] * (len(shape) - axis))
    mean = form.do("reduce_mean", form.do("multiply", x, x), shape=kept, axes=tuple(range(axis, len(shape))), keepdims=True)
    root = form.do("sqrt", form.do("add", mean, form.number(form["epsilon"])))
    return form.affine(form.do("multiply", x, form.do("reciprocal", root)), form.optional(1), None)


def _attention(form: Form) -> str:
    """softmax((q · √scale) · (k · √scale)ᵀ + mask) · v, as PyTorch computes it; `causal`: a mask of -∞ above the diagonal."""
    q, k, v = form.inputs[:3]
    root = form.number(sqrt(form["scale"]))
    rows, columns = form.type(q).shape[-2], form.type(k).shape[-2]
    shape = (*form.type(q).shape[:-1], columns)
    scores = form.do("matmul", form.do("multiply", q, root), form.do("multiply", form.turned(k), root), shape=shape)
    mask = form.optional(3)
    if form["causal"]:
        mask = form.graph.constant(np.triu(np.full((rows, columns), -np.inf, form.result.dtype), 1))
    if mask is not None:
        scores = form.do("add", scores, mask)
    weights = form.do("softmax", scores, axis=form.type(scores).rank - 1)
    return form.do("matmul", weights, v, shape=form.result.shape)


LAYER_FORMS: Mapping[str, Callable[[Form], str | None]] = {
    "linear": _linear,
    "gemm": _gemm,
    "matmul": _matmul,
    "einsum": _einsum,
    "conv": _with_bias("conv"),
    "conv_transpose": _with_bias("conv_transpose"),
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "rms_norm": _rms_norm,
    "attention": _attention,
    "activated": _activated,
    "skip_layer_norm": _skip_layer_norm,
}
"""How each layer is stated by other operators."""
