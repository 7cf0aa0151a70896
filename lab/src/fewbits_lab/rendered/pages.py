"""Every page that has measured numbers, and what makes each of its blocks."""

from functools import partial

from fewbits_lab.rendered import (
    choosing,
    coding,
    localsgd,
    methods,
    operators,
    readme,
    reproduce,
    speed,
)
from fewbits_lab.rendered import links as slow_links
from fewbits_lab.rendered.blocks import Block
from fewbits_lab.studies.accuracy import text as accuracy
from fewbits_lab.studies.bench import text as bench
from fewbits_lab.studies.bench_dtypes import text as bench_dtypes
from fewbits_lab.studies.bias import text as bias
from fewbits_lab.studies.bits_error import text as bits_error
from fewbits_lab.studies.clusters import text as clusters
from fewbits_lab.studies.coding import text as coders
from fewbits_lab.studies.compatibility import text as compatibility
from fewbits_lab.studies.demo import text as demo
from fewbits_lab.studies.device import text as device
from fewbits_lab.studies.dithering_bits import text as dithering_bits
from fewbits_lab.studies.equal_bits import text as equal_bits
from fewbits_lab.studies.federated_mnist import text as federated_mnist
from fewbits_lab.studies.federated_scale import text as federated_scale
from fewbits_lab.studies.feedback import text as feedback
from fewbits_lab.studies.flower import text as flower
from fewbits_lab.studies.links import chart
from fewbits_lab.studies.links import text as links
from fewbits_lab.studies.local_sgd import text as local_sgd
from fewbits_lab.studies.methods import text as by_method
from fewbits_lab.studies.oc_regressions import text as regressions
from fewbits_lab.studies.oc_sweep import text as sweep
from fewbits_lab.studies.oc_vectors import text as vectors
from fewbits_lab.studies.race import text as low_rank
from fewbits_lab.studies.reliability import text as reliability
from fewbits_lab.studies.scale import text as scale
from fewbits_lab.studies.sharded_training import text as sharded
from fewbits_lab.studies.streaming import text as streaming
from fewbits_lab.studies.switch_links import text as switch_links
from fewbits_lab.studies.switch_speed import text as switch_speed
from fewbits_lab.studies.theorems import text as theorems
from fewbits_lab.studies.time_saved import text as time_saved
from fewbits_lab.studies.time_to_accuracy import text as race
from fewbits_lab.studies.transport import text as transport
from fewbits_lab.studies.trellis_bits import text as trellis_bits
from fewbits_lab.studies.two_bit_training import text as two_bit

FIGURES: dict[str, Block] = {
    "docs/_static/bits-error.svg": bits_error.figure,
    "docs/_static/dithering-bits.svg": dithering_bits.dithering_figure,
    "docs/_static/step-time.svg": chart.chart,
    "docs/_static/time-saved.svg": time_saved.saved_figure,
    "docs/_static/trellis-bits.svg": trellis_bits.trellis_figure,
}
PAGES: dict[str, dict[str, Block]] = {
    "README.md": {
        "figure": readme.figure,
        "headline": readme.headline,
        "demo": readme.demo,
        "federated": readme.federated,
        "plan": readme.plans,
        "operators": readme.operators_table,
        "when-not": readme.when_not_to,
        "not-promised": readme.not_promised,
    },
    "docs/accuracy.md": {
        "claim": accuracy.claim,
        "table": accuracy.accuracy_table,
        "tiny": feedback.tiny,
        "two-bit": two_bit.losses_verdict,
        "two-bit-losses": two_bit.losses_table,
    },
    "docs/architecture.md": {"checksum": bench.checksum},
    "docs/choosing.md": {
        "short-answer": choosing.short_answer,
        "figure": choosing.figure,
        "costs": bits_error.costs_table,
        "equal-bits": trellis_bits.equal_table,
        "equal-verdict": trellis_bits.equal_verdict,
        "bias": equal_bits.bias_verdict,
        "dithering": dithering_bits.dithering_verdict,
        "dithering-table": dithering_bits.dithering_table,
    },
    "docs/coding.md": {
        "in-short": coding.in_short,
        "when-to-use": coding.when_to_use,
        "sizes": coders.sizes_table,
        "speeds": coders.speeds_table,
    },
    "docs/compatibility.md": {
        "verdict": compatibility.matrix_verdict,
        "matrix": compatibility.matrix_table,
    },
    "docs/feedback.md": {
        "digits": partial(feedback.accuracy_table, "digits"),
        "mnist": partial(feedback.accuracy_table, "mnist"),
        "accuracy-verdict": feedback.accuracy_verdict,
        "convolutional": feedback.convolutional,
        "convolutional-table": partial(feedback.search_table, "feedback-cnn"),
        "convolutional-verdict": feedback.convolutional_verdict,
        "searched": feedback.searched,
        "searched-table": partial(feedback.search_table, "feedback-search"),
        "searched-verdict": feedback.searched_verdict,
        "pilots": feedback.pilots,
        "draws": bias.draws_table,
        "training": bias.training,
        "tail": bias.tail_table,
        "tail-verdict": bias.tail_verdict,
    },
    "docs/flower.md": {"bytes": flower.bytes_table, "overhead": flower.overhead},
    "docs/format.md": {
        "codes": partial(operators.codes_table, stages=False),
        "stage-codes": partial(operators.codes_table, stages=True),
    },
    "docs/clusters.md": {
        "clusters": clusters.clusters_text,
        "survivors": reliability.survivors,
    },
    "docs/fsdp.md": {
        "runs": sharded.runs_table,
        "verdict": sharded.verdict,
        "replicas": sharded.replicas_table,
    },
    "docs/gpus.md": {
        "claim": device.claim,
        "evidence": device.evidence,
        "hot": device.hot_table,
        "memory": device.memory,
        "roofline": device.roofline,
    },
    "docs/lab.md": {
        "sweep": sweep.sweep_verdict,
        "scale-method": scale.scale_method,
        "scale": scale.scale_verdict,
    },
    "docs/localsgd.md": {
        "race-islands": low_rank.islands_table,
        "streaming": streaming.streaming,
        "runs": local_sgd.runs_table,
        "verdict": localsgd.verdict,
        "helps": localsgd.helps,
    },
    "docs/low-rank.md": {
        "race-links": low_rank.links_table,
        "race-links-said": low_rank.links_said,
        "race-steps-said": low_rank.steps_said,
        "race-steps": low_rank.steps_table,
        "race-times": low_rank.times_table,
        "race-times-said": low_rank.times_said,
    },
    "docs/methods.md": {
        "methods": by_method.methods_table,
        "regressions": regressions.regressions_table,
        "regressions-verdict": regressions.regressions_verdict,
        "spherical-verdict": methods.spherical_verdict,
        "vectors": vectors.vectors_verdict,
        "federated": federated_mnist.federated_table,
        "scale": federated_scale.scale_table,
        "scale-verdict": federated_scale.scale_verdict,
    },
    "docs/quickstart.md": {"demo": demo.screen},
    "docs/reliability.md": {
        "verdict": reliability.figures_verdict,
        "figures": reliability.figures_table,
    },
    "docs/reproduce.md": {
        "natural": reproduce.natural_table,
        "optimal": reproduce.optimal_table,
        "theorems-verdict": theorems.theorems_verdict,
        "theorems": theorems.theorems_table,
    },
    "docs/speed.md": {
        "speed": speed.speed,
        "operators": operators.operators_table,
        "operators-note": speed.operators_note,
        "dtypes-note": bench_dtypes.dtypes_note,
        "dtypes": bench_dtypes.dtypes_table,
        "calls-verdict": bench_dtypes.calls_verdict,
        "calls": bench_dtypes.calls_table,
        "many-note": bench_dtypes.many_note,
        "many": bench_dtypes.many_table,
    },
    "docs/switch.md": {
        "arithmetic": switch_speed.arithmetic_table,
        "loopback": switch_speed.loopback_table,
        "where-time-goes": switch_speed.where_time_goes,
        "sealed": switch_speed.cost_of_a_key,
        "links": switch_links.links_table,
        "links-bytes": switch_links.links_bytes,
        "links-seconds": switch_links.links_seconds,
        "accuracy": accuracy.on_the_switch,
    },
    "docs/theory.md": {
        "granular": bits_error.granular,
        "trellis-states": trellis_bits.states_table,
    },
    "docs/when-not.md": {
        "then-rather": links.powersgd_verdict,
        "biased": slow_links.biased_are_faster,
        "steps": links.steps_table,
        "gains": links.gains_table,
        "crossings": links.crossings,
        "auto": links.auto_verdict,
        "plans": links.plans_table,
        "plans-verdict": links.plans_verdict,
        "saved": time_saved.saved_verdict,
        "race": race.race_table,
        "race-verdict": race.race_verdict,
        "transport": transport.transport_table,
    },
}
