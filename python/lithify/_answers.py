"""The functions of torch that are answered otherwise while sizes are followed: those that ask for sizes, those that give contents
to Python, and those that would take a number out of the program."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from lithify import _torch
from lithify._lists import Elements
from lithify._numbers import Integer, Real, calculate, extremum, is_number
from lithify._watch import Level

if TYPE_CHECKING:
    from lithify._follow import Follower

Answer = Callable[["Follower", Any, Any, Any], Any]  # of the function, its arguments, and those by name


def _argument(args: Any, kwargs: Any, at: int, *names: str, default: Any = None) -> Any:
    if at < len(args):
        return args[at]
    return next((kwargs[n] for n in names if n in kwargs), default)


def _self(args: Any, kwargs: Any) -> Any:
    return _argument(args, kwargs, 0, "input", "self")


# ---- sizes -------------------------------------------------------------------------------------------------------------------


def _shape(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    return f.shape(args[0])


def _size(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    sizes, dim = f.shape(args[0]), _argument(args, kwargs, 1, "dim")
    if dim is None:
        return sizes
    if not -len(sizes) <= dim < len(sizes):
        return f.call(func, args, kwargs)  # raises
    return sizes[dim]


def _numel(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    return math.prod(f.shape(_self(args, kwargs)))


def _nbytes(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    return math.prod(f.shape(args[0])) * args[0].element_size()


def _stride(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """Products of sizes, where the memory is dense."""
    inner, sizes = _inner_axes(f, args[0]), f.shape(args[0])
    if inner is None:
        f.escape_sizes([args[0]], "stride")
        with _torch.paused():
            return func(*args, **kwargs)
    strides = tuple(math.prod(sizes[i] for i in axes) for axes in inner)
    dim = _argument(args, kwargs, 1, "dim")
    return strides if dim is None else strides[dim]


def _inner_axes(f: Follower, tensor: torch.Tensor) -> list[list[int]] | None:
    """For each axis, those inside of it in memory: their sizes make its stride. None where the memory is not dense."""
    with _torch.paused():
        sizes, strides = tensor.size(), tensor.stride()
    step, inner = 1, list[int]()
    out: list[list[int]] = [[] for _ in sizes]
    for axis in sorted(range(len(sizes)), key=lambda i: (strides[i], sizes[i] != 1, -i)):
        if step != strides[axis]:
            return None
        out[axis] = list(inner)
        inner.append(axis)
        step *= sizes[axis]
    return out


def _is_contiguous(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """Whether the axes are in order and without gaps in memory: it depends on which sizes are 1."""
    if _argument(args, kwargs, 1, "memory_format", default=torch.contiguous_format) is not torch.contiguous_format:
        with _torch.paused():
            return func(*args, **kwargs)
    inner = _inner_axes(f, args[0])
    if inner is None:
        return _is_without_gaps(f, args[0])
    sizes, behind = f.shape(args[0]), set[int]()
    ones = set[int]()  # axes that are known to have size 1
    for axis in reversed(range(len(sizes))):
        between = behind.symmetric_difference(inner[axis])
        for i in [axis, *sorted(between)]:
            if axis not in ones and not between <= ones and sizes[i] == 1:
                ones.add(i)
        if axis not in ones and not between <= ones:
            return False
        behind.add(axis)
    return True


def _is_without_gaps(f: Follower, tensor: torch.Tensor) -> bool:
    """Memory with gaps inside of an axis has them at all sizes of that axis but 1. There, how large the gaps are decides."""
    with _torch.paused():
        numbers, strides = tensor.size(), tensor.stride()
    sizes, step = f.shape(tensor), 1
    for axis in reversed(range(len(sizes))):
        if strides[axis] != step:
            if sizes[axis] != 1:
                return False
            f.escape_sizes([tensor], "is_contiguous")
        step *= numbers[axis]
    return True


def _same_size(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    return f.shape(args[0]) == f.shape(_argument(args, kwargs, 1, "other"))


def _memory(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """How large the memory of a tensor is, or where the tensor is in it, depends on sizes."""
    f.escape_sizes(args[:1], func.__name__)
    with _torch.paused():
        return func(*args, **kwargs)


def _pieces(count: Callable[[Follower, Any, Any, Any], Any]) -> Answer:
    """A list of tensors: Python knows how many there are."""

    def answer(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
        result = f.call(func, args, kwargs)
        number = count(f, _self(args, kwargs), args[1:], kwargs)
        if is_number(number):
            number.taken("length")
        return result

    return answer


def _of_unbind(f: Follower, tensor: torch.Tensor, args: Any, kwargs: Any) -> Any:
    return f.shape(tensor)[_argument(args, kwargs, 0, "dim", default=0)]


def _of_split(f: Follower, tensor: torch.Tensor, args: Any, kwargs: Any) -> Any:
    each = _argument(args, kwargs, 0, "split_size", "split_size_or_sections", "split_sizes")
    size = f.shape(tensor)[_argument(args, kwargs, 1, "dim", default=0)]
    if not isinstance(each, int) or not (is_number(size) or is_number(each)):
        return None
    return extremum("max", [calculate("ceil", size / each), 1])


def _of_chunk(f: Follower, tensor: torch.Tensor, args: Any, kwargs: Any) -> Any:
    size = f.shape(tensor)[_argument(args, kwargs, 1, "dim", default=0)]
    chunks = _argument(args, kwargs, 0, "chunks")
    if not (is_number(size) or is_number(chunks)):
        return None
    return calculate("ceil", size / extremum("max", [calculate("ceil", size / chunks), 1]))


def _of_sections(f: Follower, tensor: torch.Tensor, args: Any, kwargs: Any) -> Any:
    return _argument(args, kwargs, 0, "sections", "indices_or_sections")


# ---- contents ----------------------------------------------------------------------------------------------------------------


def _whole(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    f.leaves(args[0], func.__name__)
    return f.call(func, args, kwargs)


def _question(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """bool(t) and the like."""
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    if len(tensors) == 1 and (number := f.number(tensors[0])) is not None:
        return bool(number)
    with _torch.paused():
        outcome = func(*args, **kwargs)
    return f.ask(tensors, outcome, func.__name__)


def _item(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """A number of a tensor."""
    number = f.number(args[0])
    if number is not None:
        return getattr(number, func.__name__)() if func.__name__.startswith("__") and is_number(number) else number
    if f.content(args[0], func.__name__) is None:
        f.escape_origins(args[0], func.__name__)
    with _torch.paused():
        return func(*args, **kwargs)


def _list(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """tolist(): the elements are followed where they are a few."""
    tensor = args[0]
    if 0 < _torch.sizes_of(tensor).numel() <= MOST_NUMBERS and f.depends_on_inputs(tensor):
        numbers: list[Any] = []
        made = _elements(f, tensor, numbers)
        if all(n is not None for n in numbers):
            return made
    f.escape_sizes([tensor], func.__name__)
    f.leaves(tensor, func.__name__)
    with _torch.paused():
        return func(*args, **kwargs)


MOST_NUMBERS = 64


def _elements(f: Follower, tensor: torch.Tensor, numbers: list[Any]) -> Any:
    """The lists of tolist(). The numbers in them are added to `numbers`."""
    sizes = _torch.sizes_of(tensor)
    if sizes:
        # Where code takes as many integers as there are, such as lengths, a list of pieces shows that.
        rows = [tensor[i] for i in range(sizes[0])] if tensor.is_floating_point() else tensor.unbind()
        return Elements(f, tensor, [_elements(f, row, numbers) for row in rows])
    numbers.append(f.number(tensor))
    return numbers[-1]


def _data(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """x.data: the same memory."""
    return args[0].detach()


def _set_data(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    value = _torch.value_of(args[1])
    func(*args, **kwargs)
    if value is not None:
        _torch.set_value(args[0], value)


# ---- tensors of numbers ------------------------------------------------------------------------------------------------------


def _tensor(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """torch.tensor(data)."""
    return _made(f, func, args, kwargs, _self_or(args, kwargs, "data"), kwargs.get("dtype"), kwargs.get("device"))


def _as_tensor(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """torch.as_tensor(data, dtype, device), torch.asarray(obj): of a tensor, it may be that tensor."""
    data = _self_or(args, kwargs, "data", "obj")
    if isinstance(data, torch.Tensor):
        return f.call(func, args, kwargs)
    dtype, device = _argument(args, kwargs, 1, "dtype"), _argument(args, kwargs, 2, "device")
    return _made(f, func, args, kwargs, data, dtype, device)


def _new_tensor(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """x.new_tensor(data)."""
    data = _argument(args, kwargs, 1, "data")
    return _made(f, func, args, kwargs, data, kwargs.get("dtype") or args[0].dtype, kwargs.get("device") or args[0].device)


def _self_or(args: Any, kwargs: Any, *names: str) -> Any:
    return _argument(args, kwargs, 0, *names)


def _made(f: Follower, func: Any, args: Any, kwargs: Any, data: Any, dtype: Any, device: Any) -> Any:
    if not _is_of_program(data):
        return f.call(func, args, kwargs)
    made = _stacked(data)
    return made.to(device=device or made.device, dtype=dtype or made.dtype)


def _is_of_program(data: Any) -> bool:
    if is_number(data) or isinstance(data, torch.Tensor):
        return True
    return isinstance(data, tuple | list) and any(map(_is_of_program, data))


def _stacked(data: Any) -> torch.Tensor:
    if isinstance(data, torch.Tensor):
        return data.detach().clone()
    if is_number(data):
        made = data.tensor()
        return made.to(torch.get_default_dtype()) if type(data) is Real else made.clone()
    if not _is_of_program(data):
        return torch.tensor(data)
    items = [_stacked(item) for item in data]
    dtype = items[0].dtype
    for item in items[1:]:
        dtype = torch.promote_types(dtype, item.dtype)
    return torch.stack([item.to(dtype) for item in items])


def _squeeze(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """x.squeeze(dim): which dimensions are dropped is a condition on sizes."""
    tensor, dim = _self(args, kwargs), _argument(args, kwargs, 1, "dim")
    sizes = f.shape(tensor)
    dims = range(len(sizes)) if dim is None else dim if isinstance(dim, tuple | list) else (dim,)
    if not all(isinstance(d, int) and -len(sizes) <= d < len(sizes) for d in dims):
        return f.call(func, args, kwargs)  # raises, or there are no dimensions
    asked = sorted({d % len(sizes) for d in dims if is_number(sizes[d])}, reverse=True)
    if not asked or (dim is not None and sizes[asked[0]].term.of_contents):  # the core may know it better
        return f.call(func, args, kwargs)
    if dim is not None and [sizes[d].value for d in asked] == [1] and f.has_no_ones():
        # Most likely, it is always 1: the iterations of a loop ask once.
        if not f.watch.is_asked_again():
            bool(sizes[asked[0]] == 1)
        return f.call(func, args, kwargs)
    fixed = tuple(d % len(sizes) for d in dims if not is_number(sizes[d]))
    dropped = [d for d in asked if bool(sizes[d] == 1)]
    for d in dropped:
        tensor = tensor.select(d, 0)
    left = tuple(d - sum(1 for other in dropped if other < d) for d in fixed)
    return f.call(func, (tensor, left), {})


def _new(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """x.new(2, 3)."""
    sizes = args[1] if len(args) == 2 and isinstance(args[1], tuple | list) else args[1:]
    if not any(map(is_number, sizes)):
        return f.call(func, args, kwargs)
    if type(args[1]) is list:
        return _made(f, func, args, kwargs, sizes, args[0].dtype, args[0].device)
    return f.call(torch.Tensor.new_empty, (args[0], tuple(sizes)), {})


def _indexed(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
    """x[[0, n - 1]]: a list with tensors in it would be one index for each dimension."""
    index = args[1]
    if type(index) is int and index == 0 and len(args) == 2 and (first := f.first_batch(args[0])) is not None:
        return first
    index = tuple(map(_index, index)) if isinstance(index, tuple) else _index(index)
    if len(args) == 3 and _is_put(args[0], index, args[2]):
        return f.call(torch.Tensor.index_put_, (args[0], (index,), args[2]), {})
    return f.call(func, (args[0], index, *args[2:]), kwargs)


def _is_put(tensor: torch.Tensor, index: Any, value: Any) -> bool:
    """Whether x[index] = value writes to the elements of one index, and the value fits as it is. Dimensions of one element in
    front of others would be left out of it, which is not so at other sizes."""
    if not isinstance(index, torch.Tensor) or not isinstance(value, torch.Tensor) or index.dim() == 0:
        return False
    masks = index.dtype in (torch.bool, torch.uint8)
    taken, made = (index.dim(), 1) if masks else (1, index.dim())
    return value.dtype == tensor.dtype and value.dim() <= tensor.dim() - taken + made


def _index(value: Any) -> Any:
    return _stacked(value) if type(value) is list and _has_number(value) else value


def _has_number(value: Any) -> bool:
    return is_number(value) or (isinstance(value, tuple | list) and any(map(_has_number, value)))


def _spread(count: int) -> Answer:
    """One number stands for `count` of them: torch records lists, and not such a number."""

    def spread(value: Any) -> Any:
        return (value,) * count if type(value) is Integer else value

    def answer(f: Follower, func: Any, args: Any, kwargs: Any) -> Any:
        return f.call(func, tuple(map(spread, args)), {name: spread(value) for name, value in kwargs.items()})

    return answer


# ---- tables ------------------------------------------------------------------------------------------------------------------

_FUNCTIONS: tuple[Any, ...] = (torch.Tensor, torch, *_torch.function_owners)


def _table(rows: dict[str, Answer]) -> dict[Any, Answer]:
    """By function, from names of functions and methods of torch, and of attributes (".shape")."""
    out: dict[Any, Answer] = {}
    for names, answer in rows.items():
        for name in names.split():
            if name.startswith("."):
                out[getattr(torch.Tensor, name[1:]).__get__] = answer
            else:
                out |= dict.fromkeys(_named(name), answer)
    return out


def _named(name: str) -> list[Any]:
    """The functions, methods and operators of that name."""
    found = [getattr(owner, name) for owner in _FUNCTIONS if hasattr(owner, name)]
    if name in _OPERATORS:
        packet = getattr(torch.ops.aten, name)
        found += [packet, *(getattr(packet, overload) for overload in packet.overloads())]
    return found


# Those that models call as torch.ops.aten.name.
_OPERATORS = {"size", "sym_size", "numel", "sym_numel", "stride", "sym_stride", "item", "_local_scalar_dense", "is_nonzero"}
_OPERATORS |= {"equal", "allclose", "unbind", "split", "chunk"}


_SIZES: dict[str, Answer] = {
    ".shape": _shape,
    "size sym_size": _size,
    "numel nelement sym_numel": _numel,
    ".nbytes": _nbytes,
    "stride sym_stride": _stride,
    "is_same_size": _same_size,
    "is_contiguous": _is_contiguous,
    "untyped_storage storage_offset dim_order": _memory,
    "unbind unbind_copy": _pieces(_of_unbind),
    "split unsafe_split split_copy": _pieces(_of_split),
    "chunk unsafe_chunk": _pieces(_of_chunk),
    "tensor_split hsplit vsplit dsplit": _pieces(_of_sections),
    "squeeze squeeze_copy": _squeeze,
    "new": _new,
    "__getitem__ __setitem__": _indexed,
    "roll": _spread(1),
    **{f"{kind}_pool{n}d adaptive_{kind}_pool{n}d": _spread(n) for kind in ("avg", "max") for n in (1, 2, 3)},
}
_CONTENTS: dict[str, Answer] = {
    "numpy apply_ map_ map2_ resize_ resize_as_ set_": _whole,
    "__bool__ is_nonzero equal allclose": _question,
    "item _local_scalar_dense __int__ __float__ __index__ __complex__": _item,
    "tolist": _list,
    ".data": _data,
    "tensor": _tensor,
    "as_tensor asarray": _as_tensor,
    "new_tensor": _new_tensor,
}
_ALL = _table(_SIZES) | _table(_CONTENTS) | {torch.Tensor.data.__set__: _set_data}
_OF_CONTENTS = _table(_CONTENTS) | {torch.Tensor.data.__set__: _set_data}


def answers(level: Level) -> dict[Any, Answer]:
    return _ALL if level.sizes else _OF_CONTENTS


# Functions and attributes that show neither sizes nor contents.
_HARMLESS = """dim ndimension element_size get_device data_ptr const_data_ptr output_nr dense_dim sparse_dim type
    is_complex is_conj is_distributed is_floating_point is_inference is_neg is_pinned is_set_to is_shared is_signed
    is_coalesced _is_view _is_zerotensor _fused_sdp_choice cudnn_is_acceptable _use_cudnn_ctc_loss
    q_scale q_zero_point q_per_channel_axis qscheme has_names _has_compatible_shallow_copy_type _nnz"""
_HARMLESS_ATTRIBUTES = """ndim itemsize _version _cdata output_nr name names requires_grad retains_grad volatile is_leaf
    is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla
    is_xpu _python_dispatch _has_symbolic_sizes_strides"""
HARMLESS: set[Any] = {function for name in _HARMLESS.split() for function in _named(name)}
HARMLESS |= {getattr(torch.Tensor, n).__get__ for n in _HARMLESS_ATTRIBUTES.split() if hasattr(torch.Tensor, n)}
