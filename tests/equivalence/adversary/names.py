"""How the libraries name operators that have no attributes in drafts."""

from __future__ import annotations

_TABLE = """
abs             Abs             abs           abs          abs       abs
add             Add             add           add          add       add
and             And             logical_and   logical_and  -         -
bitwise_or      BitwiseOr       bitwise_or    bitwise_or   -         -
ceil            Ceil            ceil          ceil         ceil      ceil
cos             Cos             cos           cos          cos       cos
divide          Div             divide        div          div       div
equal           Equal           equal         eq           eq        eq
erf             Erf             erf           erf          erf       erf
exp             Exp             exp           exp          exp       exp
floor           Floor           floor         floor        floor     floor
greater         Greater         greater       gt           gt        gt
greater_equal   GreaterOrEqual  greater_equal ge           ge        ge
hard_swish      HardSwish       hard_swish    hardswish    -         hardswish
isnan           IsNaN           isnan         isnan        -         -
less            Less            less          lt           lt        lt
less_equal      LessOrEqual     less_equal    le           le        le
log             Log             log           log          log       log
matmul          MatMul          matmul        matmul       -         mm
maximum         Max             maximum       maximum      max       maximum
minimum         Min             minimum       minimum      min       minimum
mish            Mish            mish          mish         -         mish
multiply        Mul             multiply      mul          mul       mul
negative        Neg             negative      neg          neg       neg
not             Not             logical_not   logical_not  -         -
not_equal       -               not_equal     ne           -         -
or              Or              logical_or    logical_or   -         -
power           Pow             power         pow          pow       pow
reciprocal      Reciprocal      reciprocal    reciprocal   -         reciprocal
relu            Relu            relu          relu         -         relu
remainder       Mod             remainder     remainder    -         -
round           Round           round         round        -         round
sigmoid         Sigmoid         sigmoid       sigmoid      logistic  sigmoid
sign            Sign            sign          sign         sign      sign
silu            -               silu          silu         -         silu
sin             Sin             sin           sin          sin       sin
softplus        Softplus        softplus      softplus     -         softplus
softsign        Softsign        soft_sign     softsign     -         -
sqrt            Sqrt            sqrt          sqrt         sqrt      sqrt
subtract        Sub             subtract      sub          sub       sub
tanh            Tanh            tanh          tanh         tanh      tanh
where           Where           where         where        -         -
whole_quotient  Div             div           -            -         -
xor             Xor             logical_xor   logical_xor  -         -
"""
"""A draft's name; ONNX's node; JAX's function; PyTorch's function; and, where a proof may assume it, JAX's primitive and ATen's
operator.
"""

_ROWS = [line.split() for line in _TABLE.strip().split("\n")]
ONNX, JAX, TORCH, PRIMITIVES, ATEN = ({row[0]: row[k] for row in _ROWS if row[k] != "-"} for k in range(1, 6))


def by_own(names: dict[str, str]) -> dict[str, str]:
    """The names in drafts by those of a library."""
    return {own: name for name, own in names.items()}
