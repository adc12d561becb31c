"""Devices are data: each number has a unit, a source and a confidence, and a broken file is named."""

import re

import pytest
from jax._src.tpu_info import ChipVersion, get_tpu_info_for_chip

from elbowroom.memory.devices.profile import DeviceError, device, device_keys, read_profile

GOOD = """
name = "Card"
[numbers]
memory = { value = 2_000, unit = "B", confidence = "primary", source = "label" }
usable_memory = { value = 1_900, unit = "B", confidence = "measured", source = "us" }
memory_bandwidth = { value = 1e12, unit = "B/s", confidence = "derived", source = "clock x width" }
"""


TARGET = (
    "{{ platform = 'cuda', compute_capability = {}, core_count = 1, fpus_per_core = 1, threads_per_core_limit = 1, "
    "shared_memory_per_core = 1, shared_memory_per_block_optin = 1, l2_cache_size = 1, clock_rate_ghz = {} }}"
)


def test_the_cards_of_labs_and_clouds_are_known():
    assert device_keys() == [
        *("a100-40", "a100-80", "b200", "h100", "h200", "rtx3090", "rtx4090"),
        *("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "v100-32"),
    ]


@pytest.mark.parametrize("key", device_keys())
def test_a_program_can_have_most_of_the_memory_but_not_all(key):
    profile = device(key)
    assert 0.95 * profile.numbers["memory"].value < profile.usable_memory < profile.numbers["memory"].value


@pytest.mark.parametrize(
    ("key", "chip", "cores"),
    [
        ("tpu-v4", ChipVersion.TPU_V4, 2),
        ("tpu-v5e", ChipVersion.TPU_V5E, 1),
        ("tpu-v5p", ChipVersion.TPU_V5P, 2),
        ("tpu-v6e", ChipVersion.TPU_V6E, 1),
    ],
)
def test_tpu_numbers_are_those_of_jax(key, chip, cores):
    """Which counts them for each core of a chip."""
    numbers, theirs = device(key).numbers, get_tpu_info_for_chip(chip, cores)
    pairs = {
        "memory": theirs.hbm_capacity_bytes,
        "memory_bandwidth": theirs.mem_bw_bytes_per_second,
        "bfloat16": theirs.bf16_ops_per_second,
    }
    for name, of_core in pairs.items():
        assert numbers[name].value == pytest.approx(cores * of_core, rel=0.01), name


def test_an_unknown_device_is_refused_with_the_nearest_and_all_names():
    with pytest.raises(DeviceError, match=r"no device is called 'rtx4091'; did you mean 'rtx4090'\? Known are a100-40"):
        device("rtx4091")


def test_a_name_like_no_device_is_refused_with_those_there_are():
    with pytest.raises(DeviceError, match="no device is called 'abacus'; known are a100-40, "):
        device("abacus")


def test_a_device_is_one_file(tmp_path):
    path = tmp_path / "card.toml"
    path.write_text(GOOD)
    profile = read_profile(path)
    assert (profile.key, profile.name, profile.usable_memory, dict(profile.target)) == ("card", "Card", 1900, {})
    assert profile.to_dict()["numbers"]["memory"] == {
        **{"value": 2000.0, "unit": "B", "confidence": "primary", "source": "label"}
    }


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "Card"', "name = ", "cannot be read"),
        ('name = "Card"', "", "needs a text `name`"),
        ("[numbers]", "[number]", "unknown key 'number'"),
        ("usable_memory", "useable_memory", "lacks usable_memory"),
        ("memory_bandwidth = ", "bandwidth = {}\nmemory_bandwidth = ", "unknown number 'bandwidth'"),
        (', source = "label"', "", "numbers.memory must hold exactly confidence, source, unit, value"),
        ('source = "label"', 'source = ""', "numbers.memory.source must say where"),
        ('"primary"', '"sure"', "numbers.memory.confidence = 'sure' must be one of primary, measured"),
        ('unit = "B/s"', 'unit = "GB/s"', "numbers.memory_bandwidth.unit = 'GB/s' must be 'B/s'"),
        ("2_000", "0", "numbers.memory.value = 0 must be a number above 0"),
        ("2_000", "inf", "numbers.memory.value = inf must be a number above 0"),
        ("2_000", "true", "numbers.memory.value = True must be a number above 0"),
        ("[numbers]", "target = 3\n[numbers]", "target.platform = None must be one of tpu, cuda"),
        ("[numbers]", "target.platform = 'rocm'\n[numbers]", "target.platform = 'rocm' must be one of tpu, cuda"),
        ("[numbers]", "target.platform = 'tpu'\n[numbers]", "[target] must hold exactly platform, topology"),
        (
            "[numbers]",
            f"target = {TARGET.format('9', '1.9')}\n[numbers]",
            "compute_capability = 9 must be of type list",
        ),
        ("[numbers]", f"target = {TARGET.format('[9]', '1.9')}\n[numbers]", "must be two whole numbers"),
        (
            "[numbers]",
            f"target = {TARGET.format('[9, 0]', '2')}\n[numbers]",
            "clock_rate_ghz = 2 must be of type float",
        ),
    ],
)
def test_a_broken_file_is_named_with_its_key(tmp_path, old, new, complaint):
    path = tmp_path / "card.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(DeviceError, match=rf"card\.toml.*{re.escape(complaint)}"):
        read_profile(path)
