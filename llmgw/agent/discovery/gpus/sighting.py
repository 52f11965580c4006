"""What one look at the GPUs of a machine gives."""

import msgspec

from llmgw.core.fleet.hardware import Gpu, GpuProcess


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs that one interface tells of.

    Attributes:
        problem: why there may be more of them than it tells, in the driver's words.
        driver: version of the driver.
        cuda: the CUDA version that this driver serves.
        holders: by uuid, every process that holds memory of that GPU, engines of ours too; a GPU of which nobody can
            tell is left out.
    """

    gpus: tuple[Gpu, ...] = ()
    problem: str | None = None
    driver: str | None = None
    cuda: str | None = None
    holders: dict[str, tuple[GpuProcess, ...]] = {}


def joined(sightings: tuple[Sighting, ...]) -> Sighting:
    """Put what several interfaces tell into one; of versions the first that is told counts."""
    problems = [one.problem for one in sightings if one.problem is not None]
    return Sighting(
        gpus=tuple(gpu for one in sightings for gpu in one.gpus),
        problem="; ".join(problems) or None,
        driver=next((one.driver for one in sightings if one.driver), None),
        cuda=next((one.cuda for one in sightings if one.cuda), None),
        holders={uuid: held for one in sightings for uuid, held in one.holders.items()},
    )
