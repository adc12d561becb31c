"""Published parameter files: what is written is read back, and what does not fit is named."""

import numpy as np
import pytest
from tiny_alphafold import tiny_model

from elbowroom.models.alphafold.config import tiny
from elbowroom.models.alphafold.weights import published_arrays
from elbowroom.models.published import WeightsError
from elbowroom.studies.deepmind import load_deepmind, save_deepmind


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("parameters") / "params_model_9.npz"
    save_deepmind(path, tiny_model())
    return path


def rewritten(file, tmp_path, change):
    arrays = dict(np.load(file))
    change(arrays)
    path = tmp_path / "changed.npz"
    np.savez(path, **arrays)
    return path


def test_a_round_trip_keeps_every_bit_and_finds_the_sizes(file, tmp_path):
    model = load_deepmind(file)
    again = tmp_path / "again.npz"
    save_deepmind(again, model)
    first, second = np.load(file), np.load(again)
    assert sorted(first.files) == sorted(second.files)
    assert all(first[name].tobytes() == second[name].tobytes() for name in first.files)
    assert all(array.dtype == "float32" for array in published_arrays(model).values())
    assert model.config.structure_layers == 8  # leaves no trace in a file: the published number
    assert model.config.evoformer_blocks == tiny().evoformer_blocks


@pytest.mark.parametrize("head", ["template", "predicted_aligned_error"])
def test_models_without_templates_or_aligned_error_are_recognised(file, tmp_path, head):
    def drop(arrays):
        for name in [n for n in arrays if head in n]:
            del arrays[name]

    config = load_deepmind(rewritten(file, tmp_path, drop)).config
    assert (config.templates, config.aligned_error) == (head != "template", head == "template")


def test_missing_extra_and_misshaped_arrays_are_all_named(file, tmp_path):
    scope = "alphafold/alphafold_iteration"

    def spoil(arrays):
        del arrays[f"{scope}/masked_msa_head/logits//bias"]
        arrays["somebody/else//w"] = np.zeros(2)
        arrays[f"{scope}/distogram_head/half_logits//bias"] = np.zeros((1, 1), np.float32)

    with pytest.raises(WeightsError, match=r"(?s)changed.npz.*missing .*masked_msa.*somebody/else.*half_logits//bias"):
        load_deepmind(rewritten(file, tmp_path, spoil))


def test_a_file_that_is_no_parameters_is_refused_with_its_name(file, tmp_path):
    text, cut, other = tmp_path / "text.npz", tmp_path / "cut.npz", tmp_path / "other.npz"
    text.write_text("no array")
    cut.write_bytes(file.read_bytes()[:500])
    np.savez(other, weights=np.zeros(3))
    for path, reason in ((text, "no npz file"), (cut, "no npz file or damaged"), (other, "not the parameters of")):
        with pytest.raises(WeightsError, match=rf"{path.name}.*{reason}"):
            load_deepmind(path)
    with pytest.raises(WeightsError, match=r"nowhere.npz cannot be read"):
        load_deepmind(tmp_path / "nowhere.npz")
