"""Runner that records a training step's ops without computing them, in a Python that has torch.

It is started by path, so it needs only torch and the standard library. All tensors are fake tensors
(shapes and element types, no memory). A dispatch mode above them writes each op that reaches a
backend in Kineto's JSON, as the profiler would; each op has a nominal duration of 1 us.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import runpy
import sys
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

Event = dict[str, Any]
NAMES = {  # as the profiler writes them; all others as torch does
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char",
    "uint8": "unsigned char", "bool": "bool", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>", "float8_e4m3fn": "c10::Float8_e4m3fn",
    "float8_e5m2": "c10::Float8_e5m2",
}  # fmt: skip
NUMBERS = {  # torch's ScalarType, by which the profiler writes arguments that are types
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6,
    "float64": 7, "complex64": 9, "complex128": 10, "bool": 11, "bfloat16": 15,
}  # fmt: skip
WRAPPED = {
    kind: torch.empty((), dtype=dtype, device="meta")
    for kind, dtype in {
        bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128,
    }.items()
}  # fmt: skip
MAKES_NOTHING = (
    "empty", "new_empty", "_local_scalar_dense", "lift_fresh", "set_", "resize_", "_unsafe_view",
)  # fmt: skip
GRADIENT = "torch::autograd::AccumulateGrad"
PROCESS = {"pid": 1, "tid": 1}


class StepsDone(BaseException):
    """Exception that ends the script after the recorded steps.

    Scripts do not catch a BaseException.
    """


class OpWriter(TorchDispatchMode):
    """Dispatch mode that records ops and the memory they use, on top of fake tensors.

    Scalars that follow from Python numbers alone (such as an optimizer's step count) keep their
    value. Any other value that the script reads is 0, and ``guessed`` counts these reads by place
    in the script. ``events`` are the events recorded so far, in order, and ``time`` is the current
    time in us.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.time = 0
        self.held = self.peak = self.kept = 0
        self.first_backward = True
        self.guessed: dict[str, int] = {}
        self.parameters: list[torch.Tensor] = []
        self.states: Any = None
        self._storages: dict[int, int] = {}
        self._values: dict[int, torch.Tensor] = {}  # by storage: tensors with weak references
        # to them cannot be moved, which torch does with the parameters of fake modules

    def begin_step(self) -> None:
        """Discard the events recorded so far, but keep counting the memory in use."""
        self.events.clear()
        self.time = self.kept = 0
        self.peak = self.held
        self.first_backward = True

    def _lasting_bytes(self) -> int:
        """Bytes of the parameters, their gradients and their optimizer states."""
        states = _tensors(dict(self.states or {}))
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        return sum(map(_bytes, [*self.parameters, *gradients, *states]))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Execute an op on shapes only, and record it."""
        kwargs = kwargs or {}
        if func.namespace in ("prim", "profiler"):
            return func(*args, **kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            return self._value(args[0])
        if self.first_backward and torch._C._current_graph_task_id() >= 0:
            self.first_backward = False
            self.kept = self.held - self._lasting_bytes()
        if is_work(func):
            self._operator(func._schema.name, _all_arguments(func, args, kwargs), 1)
        result = func(*args, **kwargs)
        for tensor in _tensors(result):
            self._count_memory(tensor)
        self._keep_values(func, args, kwargs, result)
        return result

    def _operator(self, name: str, arguments: list[Any], lasts: int) -> None:
        args = {
            "Input Dims": [_dims(a) for a in arguments],
            "Input type": [_type(a) for a in arguments],
            "Concrete Inputs": [_scalar(a) for a in arguments],
        }
        self.events.append(
            {"ph": "X", "cat": "cpu_op", "name": name, **PROCESS, "ts": self.time, "dur": lasts,
             "args": args}
        )  # fmt: skip
        self.time += lasts

    def record_gradient(self, parameter: torch.Tensor) -> None:
        """Record that a parameter's gradient is complete."""
        self._operator(GRADIENT, [parameter.grad], 0)

    def _count_memory(self, tensor: torch.Tensor) -> None:
        """Count a storage as memory in use until it is freed."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._storages or not storage.nbytes():
            return
        self._storages[key] = storage.nbytes()
        self._memory(key, storage.nbytes())
        weakref.finalize(storage, self._release, key).atexit = False

    def _release(self, key: int) -> None:
        self._values.pop(key, None)
        self._memory(key, -self._storages.pop(key))

    def _memory(self, key: int, size: int) -> None:
        self.held += size
        self.peak = max(self.peak, self.held)
        args = {"Bytes": size, "Total Allocated": self.held, "Total Reserved": 0,
                "Device Type": 0, "Device Id": -1, "Addr": key}  # fmt: skip
        self.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", **PROCESS, "s": "t",
             "ts": self.time, "args": args}
        )  # fmt: skip

    def _keep_values(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Compute the scalars that an op returns, if all its inputs are known.

        The known values of scalars that the op overwrites otherwise are discarded.
        """
        written = _written_tensors(func, args)
        made, inputs = _tensors(result), _tensors((args, kwargs))
        alone = all(_is_scalar_storage(t) for t in (*made, *written))
        random = torch.Tag.nondeterministic_seeded in func.tags
        if not alone or random or not all(map(self._is_known, inputs)):
            for tensor in written:
                self._values.pop(_key(tensor), None)
            return

        def known(value: Any) -> Any:
            real = not isinstance(value, FakeTensor)
            return value if real else self._values[_key(value)]

        with _disable_current_modes():
            found = func(*tree_map(known, args), **tree_map(known, kwargs))
            kept = [t.clone() for t in _tensors(found)]
        self._values.update(zip(map(_key, made), kept, strict=True))

    def _is_known(self, tensor: torch.Tensor) -> bool:
        real = not isinstance(tensor, FakeTensor)
        return tensor.numel() == 1 if real else _key(tensor) in self._values

    def _value(self, tensor: torch.Tensor) -> Any:
        """Value of a scalar; 0 if only real computation would give it."""
        if _key(tensor) in self._values:
            with _disable_current_modes():
                return self._values[_key(tensor)].item()
        place = _place_in_script()
        self.guessed[place] = self.guessed.get(place, 0) + 1
        kind = bool if tensor.dtype is torch.bool else float if tensor.is_floating_point() else int
        return kind(0)


def is_work(func: Any) -> bool:
    """True if an op overload computes on numbers; False for views and allocations.

    >>> is_work(torch.ops.aten.mm.default), is_work(torch.ops.aten.t.default)
    (True, False)
    """
    returns = func._schema.returns
    view = any(r.alias_info and not r.alias_info.is_write for r in returns)
    return not view and not func._schema.name.partition("::")[2].startswith(MAKES_NOTHING)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _is_scalar_storage(tensor: torch.Tensor) -> bool:
    """True if a tensor's storage holds a single number."""
    whole = tensor.untyped_storage().nbytes() == tensor.element_size()
    return bool(whole and tensor.numel() == 1)


def _written_tensors(func: Any, args: Any) -> list[torch.Tensor]:
    """Tensors that an op writes in place."""
    named = zip(func._schema.arguments, args, strict=False)
    return _tensors([a for s, a in named if s.alias_info is not None and s.alias_info.is_write])


def _place_in_script() -> str:
    """File and line of the innermost stack frame that is neither in torch nor in this file."""
    frames = [f for f in traceback.extract_stack() if not _is_library(f.filename)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "torch"


def _is_library(file: str) -> bool:
    return file.startswith("<") or file == __file__ or "/torch/" in file


def _all_arguments(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Arguments of an op in the order of its schema, defaults included."""
    given = dict(enumerate(args))
    values = [
        (str(spec.type), given.get(i, kwargs.get(spec.name, spec.default_value)))
        for i, spec in enumerate(func._schema.arguments)
    ]
    return [_as_tensor(value) if "Tensor" in kind else value for kind, value in values]


def _as_tensor(value: Any) -> Any:
    """Argument in the form that is recorded: a number in place of a tensor becomes a 0-d tensor.

    A list without tensors, in place of a list of tensors, becomes ``NoTensors``.
    """
    if isinstance(value, list | tuple):
        return value if _is_list(value) else NoTensors()
    return WRAPPED.get(type(value), value)


class NoTensors:
    """Empty list of tensors."""


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(v, torch.Tensor) for v in value)


def _dims(value: Any) -> list[Any]:
    if _is_list(value):
        return [list(map(int, v.shape)) for v in value if v is not None]
    return list(map(int, value.shape)) if isinstance(value, torch.Tensor) else []


def _type(value: Any) -> str:
    """Element type as the profiler writes it.

    For a list, the type of its tensors is added in brackets.
    """
    if _is_list(value):
        return f"TensorList[{_type(next(v for v in value if v is not None))}]"
    if isinstance(value, NoTensors):
        return "TensorList"
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        return NAMES.get(name, name)
    if isinstance(value, list | tuple):
        return "ScalarList"
    return "Scalar" if isinstance(value, int | float | bool | torch.dtype) else ""


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, torch.Tensor) or _is_list(value):
        return ""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, torch.dtype):
        return str(NUMBERS.get(str(value).removeprefix("torch."), ""))
    return str(value) if isinstance(value, int | float | bool | str) else ""


class MetaRecorder:
    """Context manager that records the steps made inside it.

    Parameters
    ----------
    warm_up : number of first steps that are not recorded (an optimizer creates its states in the
        first)
    steps : number of recorded steps
    """

    def __init__(self, warm_up: int = 1, steps: int = 1):
        self.warm_up, self.steps, self.done = warm_up, steps, 0
        self.writer, self.fakes = OpWriter(), FakeTensorMode(allow_non_fake_inputs=True)
        self.written: list[Event] = []
        self.optimizer: Any = None
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> MetaRecorder:
        self._handle = register_optimizer_step_post_hook(self._after_optimizer)
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        self._swap, torch.utils.swap_tensors = torch.utils.swap_tensors, _swap_fakes
        self.fakes.__enter__()
        self.writer.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.writer.__exit__(*error)
        self.fakes.__exit__(*error)
        torch.utils.swap_tensors = self._swap
        self._warnings.__exit__(*error)
        self._handle.remove()

    def watch(self, parameters: Iterable[torch.Tensor]) -> None:
        """From now on, record when the gradients of these parameters are complete."""
        self.writer.parameters = [p for p in parameters if p.requires_grad]
        for parameter in self.writer.parameters:
            parameter.register_post_accumulate_grad_hook(self.writer.record_gradient)

    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """End an iteration at the step of the first optimizer.

        Steps of a second one are ignored.
        """
        if self.optimizer is None:
            self.optimizer = weakref.ref(optimizer)
            self.writer.states = optimizer.state
            self.watch(p for group in optimizer.param_groups for p in group["params"])
        if self.optimizer() is optimizer:
            self.end_step()

    def end_step(self) -> None:
        """End a step.

        Raises
        ------
        StepsDone
            All steps are recorded.
        """
        number, writer = self.done - self.warm_up, self.writer
        self.done += 1
        if number >= 0:
            self._close(number)
        writer.begin_step()
        if self.done == self.warm_up + self.steps:
            raise StepsDone

    def _close(self, number: int) -> None:
        writer = self.writer
        shift = number and self.written[-1]["ts"] + self.written[-1]["dur"]
        for event in writer.events:
            event["ts"] += shift
        name = f"ProfilerStep#{number + 1}"
        mark = {"ph": "X", "cat": "user_annotation", "name": name, **PROCESS,
                "ts": shift, "dur": writer.time}  # fmt: skip
        self.written += [e for e in writer.events if e["ts"] <= shift + writer.time] + [mark]
        self.facts = {
            "parameters": sum(p.numel() for p in writer.parameters),
            "parameter_bytes": sum(map(_bytes, writer.parameters)),
            "kept_bytes": writer.kept,
            "peak_bytes": writer.peak,
            "guessed": writer.guessed,
        }

    def document(self) -> dict[str, Any]:
        """Recorded events as Kineto's JSON document."""
        own = {"meta": self.facts, "torch": torch.__version__}
        return {"schemaVersion": 1, "foretrace": own, "traceEvents": self.written}

    def save(self, path: Path) -> None:
        """Write the recorded events as gzipped JSON."""
        with gzip.open(path, "wt", encoding="ascii", compresslevel=6) as out:
            json.dump(self.document(), out)


def _swap_fakes(first: torch.Tensor, second: torch.Tensor) -> None:
    """Swap the contents of two fake tensors, as ``module.to`` does with parameters.

    Torch's own swap refuses tensors that have weak references, and its fake mode keeps one.
    """
    torch._C._swap_tensor_impl(first, second)
    first.__dict__, second.__dict__ = second.__dict__, first.__dict__


def step_function(made: Any) -> Callable[[], object]:
    """Step function of what a target returned.

    A callable is the step itself. For (module, inputs) the step is a forward and a backward pass.
    """
    if not isinstance(made, tuple):
        if not callable(made) or isinstance(made, torch.nn.Module):
            raise TypeError(
                f"it returned {type(made).__name__}; let it return a step (called without "
                "arguments), or a module and a tuple of its inputs"
            )
        return made  # type: ignore[no-any-return]
    module, inputs = made
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)

    def step() -> None:
        module.zero_grad()
        found = [t for t in tree_leaves(module(*inputs)) if isinstance(t, torch.Tensor)]
        total = sum((t.sum() for t in found if t.requires_grad), torch.zeros(()))
        if total.requires_grad:
            total.backward()

    return step


def record_step(make: Callable[[], Any], warm_up: int = 1, steps: int = 1) -> MetaRecorder:
    """Record steps of what ``make`` returns: a step function, or a module and its inputs."""
    recorder = MetaRecorder(warm_up, steps)
    with recorder:
        made = make()
        if isinstance(made, tuple):
            recorder.watch(made[0].parameters())
        step = step_function(made)
        recorder.writer.begin_step()
        try:
            while True:
                before = recorder.done
                step()
                if recorder.done == before:  # without an optimizer
                    recorder.end_step()
        except StepsDone:
            pass
    return recorder


def record_script(target: list[str], warm_up: int, steps: int) -> MetaRecorder:
    """Record steps of a script, or of a module (``-m``), run with its command line."""
    recorder = MetaRecorder(warm_up, steps)
    with recorder:
        try:
            if target[0] == "-m":
                sys.argv = target[1:]
                runpy.run_module(target[1], run_name="__main__", alter_sys=True)
            else:
                sys.argv, sys.path[0] = target, str(Path(target[0]).resolve().parent)
                runpy.run_path(target[0], run_name="__main__")
        except StepsDone:
            pass
        except SystemExit as end:  # how many steps it made says the rest
            if end.code:
                raise
    return recorder


def _function(target: str) -> Callable[[], Any]:
    """Function named by ``FILE.py:NAME`` or ``package.module:NAME``."""
    where, _, name = target.rpartition(":")
    if where.endswith(".py"):
        sys.path[0] = str(Path(where).resolve().parent)
        spec = importlib.util.spec_from_file_location(Path(where).stem, where)
        assert spec is not None and spec.loader is not None  # noqa: S101, PT018  a .py file has both
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    return getattr(module, name)  # type: ignore[no-any-return]


def _reason(error: BaseException) -> str:
    """Explanation of why a step cannot be recorded without values."""
    if isinstance(error, DynamicOutputShapeException | DataDependentOutputException):
        frames = [
            f for f in traceback.extract_tb(error.__traceback__) if not _is_library(f.filename)
        ]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "the script"
        return (
            f"{place}: the result of {error.args[0]} depends on values, which are not computed; "
            "give it a fixed size (a capacity, a padded batch), or record a real step"
        )
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


def main(settings: dict[str, Any]) -> None:
    """Record what the settings describe; a failure is reported in a file ``failed``."""
    target, warm_up, steps = settings["target"], settings["warm_up"], settings["steps"]
    failed = Path(settings["failed"])
    sys.path.insert(0, "")
    try:
        if settings["function"]:
            recorder = record_step(_function(target[0]), warm_up, steps)
        else:
            recorder = record_script(target, warm_up, steps)
    except Exception as error:  # whatever a script raises
        traceback.print_exc()
        failed.write_text(_reason(error))
        raise SystemExit(1) from error
    if recorder.done < warm_up + steps:
        failed.write_text(
            f"made {recorder.done} steps of an optimizer, {warm_up + steps} are wanted ("
            f"{warm_up} to warm up, {steps} to write); train for longer, or name a function that "
            "returns a step"
        )
        raise SystemExit(1)
    recorder.save(Path(settings["out"]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
