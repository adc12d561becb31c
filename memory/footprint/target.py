"""Memory of a train step on a device that is not there, as that device's own compiler plans it.

The compilers come with the optional packages of `elbowroom[compilers]`; none needs a driver or a device. They are
loaded into the process of whoever asks, together with all their faults: ask from a process of its own, with
`ENVIRONMENT` set before jax is imported.
"""

import hashlib
import json
import os
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src.compiler import get_compile_options
from jax._src.lib import xla_client  # pyright: ignore[reportPrivateImportUsage]
from jax.experimental.topologies import get_topology_desc
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from elbowroom.memory.devices.profile import DeviceError, DeviceProfile
from elbowroom.memory.footprint.compiled import COMPILER_OPTIONS, accounted, in_host_memory, lower_step
from elbowroom.memory.footprint.footprint import Footprint

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "XLA_FLAGS": (
        "--xla_gpu_autotune_level=0 --xla_backend_optimization_level=0 --xla_gpu_disable_gpuasm_optimizations=true"
    ),
}
"""No driver is looked for, no metadata server is waited for, and several processes may hold the TPU's compiler. Kernels
for cards are not tuned, which needs the card to time them, and their code is not optimised: it is made after memory is
settled, never runs, and would take most of the time."""
UNTUNED = "No supported config found"
"""In what the compiler of cards says of a matrix product whose Triton kernel it cannot choose without trying some"""
PACKAGES = {"cuda": "jax-cuda13-plugin", "tpu": "libtpu"}
BLOCK = {"x": 2**31 - 1, "y": 65_535, "z": 65_535}
"""Most blocks of a CUDA grid along each axis"""


def compile_for(
    device: DeviceProfile, step: Callable[..., Any], state: PyTree, batch: PyTree, *, cache: Path
) -> Footprint:
    """What one of these devices holds during a train step; nothing runs.

    Args:
      step: what `make_step` gives.
      state, batch: arrays or their shapes.
      cache: a folder where the answer is kept for the same program, device and compiler.

    Raises `DeviceError` for a device without a compiler here, and what the compiler raises, such as
    `JaxRuntimeError` where a TPU's program does not fit its memory.
    """
    detail = f"{device.name}, {compiler(device)}, jax {jax.__version__}"
    program = _lowered(device, step, state, batch)
    asked = repr((program.lowered.as_text(), dict(device.target), device.numbers, detail))
    place = cache / f"{hashlib.sha256(asked.encode()).hexdigest()}.json"
    if not place.exists():
        found = accounted(_analysis(program), state, batch, detail=detail)
        cache.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found.to_dict()), encoding="utf-8")
        partial.replace(place)
    return Footprint(**json.loads(place.read_text(encoding="utf-8")))


class _Program(NamedTuple):
    lowered: Any
    card: Any = None
    """The device to compile for, where that is not the one on which the program was lowered"""


def _lowered(device: DeviceProfile, step: Callable[..., Any], state: PyTree, batch: PyTree) -> _Program:
    """The program in the device's terms.

    jax gives an absent card no host memory, and drops in silence what is said of it. So a state of which some waits
    there stays on this machine's devices, which have it, until it is lowered.
    """
    sharding = target_sharding(device)
    in_host = sharding.with_memory_kind("pinned_host")
    if in_host.memory_kind is None and any(in_host_memory(leaf) for leaf in jax.tree.leaves(state)):
        return _Program(lower_step(step, state, batch, device.platform), next(iter(sharding.device_set)))

    def placed(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=in_host if in_host_memory(leaf) else sharding)

    return _Program(lower_step(step, jax.tree.map(placed, state), jax.tree.map(placed, batch)))


def _analysis(program: _Program) -> Any:
    """The compiler's account; asked again for cuBLAS' kernels where it cannot choose among Triton's."""
    try:
        return _compiled(program, COMPILER_OPTIONS)
    except jax.errors.JaxRuntimeError as error:
        if UNTUNED not in str(error):
            raise
        return _compiled(program, {**COMPILER_OPTIONS, "xla_gpu_enable_triton_gemm": False})


def _compiled(program: _Program, options: dict[str, Any]) -> Any:
    lowered, card = program
    if card is None:
        return lowered.compile(compiler_options=options).memory_analysis()
    own = get_compile_options(
        num_replicas=1, num_partitions=1, device_assignment=np.array([[card.id]]), env_options_overrides=options
    )
    return card.client.compile(lowered.compiler_ir(), xla_client.DeviceList((card,)), own).get_compiled_memory_stats()


def compiler(device: DeviceProfile) -> str:
    """The package that compiles for a device, with its version; raises `DeviceError` where there is none."""
    package = PACKAGES.get(device.platform)
    if package is None:
        raise DeviceError(f"no compiler here knows {device.key}; compile for another device, or use --how formula")
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        raise DeviceError(f"compiling for {device.key} needs {package}: pip install 'elbowroom[compilers]'") from None


def target_sharding(device: DeviceProfile) -> NamedSharding:
    """Everything whole on the first device of the smallest machine that has such devices."""
    compiler(device)
    if device.platform == "cuda":
        topology = get_topology_desc(
            device.key, platform="cuda", target_config=cuda_description(device), topology="1x1x1"
        )
    else:
        topology = get_topology_desc(device.target["topology"], platform="tpu")
    return NamedSharding(Mesh(np.array(topology.devices[:1]), ("device",)), PartitionSpec())


def cuda_description(device: DeviceProfile) -> str:
    """A card in the words of XLA's GpuTargetConfigProto, as text."""
    target, numbers = device.target, device.numbers
    major, minor = target["compute_capability"]
    stated = ("core_count", "fpus_per_core", "threads_per_core_limit", "clock_rate_ghz", "l2_cache_size")
    limits = {
        **{name: target[name] for name in (*stated, "shared_memory_per_core", "shared_memory_per_block_optin")},
        "threads_per_block_limit": 1024,
        "threads_per_warp": 32,
        "shared_memory_per_block": 48 * 1024,
        **{f"block_dim_limit_{axis}": most for axis, most in BLOCK.items()},
        "registers_per_core_limit": 65_536,
        "registers_per_block_limit": 65_536,
        "memory_bandwidth": int(numbers["memory_bandwidth"].value),
        "device_memory_size": device.usable_memory,
    }
    fields = "\n".join(f"  {name}: {value}" for name, value in limits.items())
    return (
        f"gpu_device_info {{\n{fields}\n  cuda_compute_capability {{ major: {major} minor: {minor} }}\n}}\n"
        'platform_name: "CUDA"\ndnn_version_info { major: 9 minor: 8 patch: 0 }\n'
        f'runtime_version {{ major: 13 minor: 0 patch: 0 }}\ndevice_description_str: "{device.name}"\n'
    )
