"""Windows of weather as Aurora's features: normalised, cut to whole patches, with encodings and what is known."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

from elbowroom.datasets.weather.examples import VALID, Example
from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.encodings import Encodings, encodings
from elbowroom.models.aurora.normalisation import atmosphere_scaling, static_scaling, surface_scaling
from elbowroom.studies.metrics.weather import area_weights
from elbowroom.studies.sizes import CaseSizeError, Sizes

STATIC_NAMES = {"z": "z_surface"}
"""What a static variable is called where variables of both kinds lie together"""


@dataclass(frozen=True)
class FeatureMaker:
    """Makes features of examples of one dataset."""

    config: AuroraConfig
    dataset: xr.Dataset
    """In normal form"""
    lead_hours: float
    steps: int

    def __call__(self, example: Example) -> dict[str, np.ndarray]:
        """Features of one window: its first `config.history` times are given, the others are to be predicted.

        Where nothing is known the features hold 0, the mean, and the target is not compared.
        """
        config, history = self.config, self.config.history
        levels = self.dataset["level"].values
        surface, known_surface = _stacked(example, config.surface, surface_scaling(config.surface)[:, :, None])
        air, known_air = _stacked(example, config.atmosphere, atmosphere_scaling(config.atmosphere, levels)[:, :, None])
        names = tuple(STATIC_NAMES.get(name, name) for name in config.static)
        static, _ = _stacked(example, names, static_scaling(config.static))
        kept = len(self.latitudes)
        fields = {
            "surface": surface[:, :history],
            "static": static,
            "atmosphere": air[:, :history],
            "target_surface": surface[:, history:].swapaxes(0, 1),
            "target_atmosphere": air[:, history:].swapaxes(0, 1),
            "valid_surface": known_surface[:, history:].swapaxes(0, 1),
            "valid_atmosphere": known_air[:, history:].swapaxes(0, 1),
        }
        area = area_weights(self.dataset["latitude"].values)[:kept].astype(np.float32)
        cut = {name: np.ascontiguousarray(field[..., :kept, :]) for name, field in fields.items()}
        return {**cut, "area": area, **self._encoded(float(example["hours"][history - 1]))}

    @property
    def latitudes(self) -> Float[np.ndarray, "lat"]:
        """Without the last where there is one too many for whole patches, as 721 of 0.25 degree."""
        latitudes = self.dataset["latitude"].values
        return latitudes[: -1 if len(latitudes) % self.config.patch == 1 else None]

    def encodings(self, newest: float) -> Encodings:
        """Of a step from the time that is `newest` hours after 1970-01-01 00 UTC."""
        places = (self.latitudes, self.dataset["longitude"].values, self.dataset["level"].values)
        return encodings(self.config, *places, self.lead_hours, newest)

    def _encoded(self, newest: float) -> dict[str, np.ndarray]:
        made = [self.encodings(newest + step * self.lead_hours) for step in range(self.steps)]
        return {
            **{f"at_{name}": part for name, part in made[0]._asdict().items()},
            "at_date": np.stack([of_step.date for of_step in made]),
        }


def require_grid(dataset: xr.Dataset, sizes: Sizes) -> None:
    """Raise `CaseSizeError` where the data's grid is not that of the sizes."""
    found = {
        "latitudes": dataset.sizes["latitude"],
        "longitudes": dataset.sizes["longitude"],
        "levels": dataset.sizes.get("level", 1),
    }
    other = [f"--size {name}={length}" for name, length in found.items() if sizes[name] != length]
    if other:
        raise CaseSizeError(f"the data has another grid than the model: add {' '.join(other)}")


def _stacked(
    example: Example, names: tuple[str, ...], scaling: Float[np.ndarray, "two var *ones"]
) -> tuple[Float[np.ndarray, "var *any lat lon"], Bool[np.ndarray, "var *any lat lon"]]:
    """Normalised variables, 0 where unknown, and where they are known."""
    values = np.stack([example[name] for name in names])
    known = np.stack([example[f"{name}/{VALID}"] for name in names])
    mean, scale = scaling
    return np.where(known, (values - mean) / scale, 0).astype(np.float32), known
