"""All recorded results that pages show."""

from fewbits.lab.recorded import (
    federated,
    feedback,
    gradients,
    links,
    papers,
    race,
    speed,
    switch,
    training,
)
from fewbits.lab.recorded.record import Recorded

RECORDED: tuple[Recorded, ...] = (
    speed.BENCH,
    speed.CODING,
    speed.TOP_K,
    speed.SPHERICAL,
    links.LINKS,
    race.RACE,
    race.TRANSPORT,
    links.LIMITS,
    training.ACCURACY,
    training.LOCAL_SGD,
    training.SHARDED,
    feedback.FEEDBACK,
    feedback.FEEDBACK_CNN,
    feedback.FEEDBACK_SEARCH,
    feedback.BIAS,
    federated.MNIST,
    federated.METHODS,
    federated.SCALE,
    federated.FLOWER,
    switch.LINKS,
    switch.SPEED,
    gradients.EQUAL_BITS,
    papers.REGRESSIONS,
)
