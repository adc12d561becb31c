"""Strict arithmetic and a shared compilation cache for the whole suite."""

import os
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Compiling is what the suite's time goes into, and its programs are too small to gain from optimised machine code.
# Buffers are assigned before this stage, so compiled memory is the same.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".jax_cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
