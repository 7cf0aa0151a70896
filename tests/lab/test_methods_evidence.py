"""What was measured for the page on methods is what it claims."""

from fewbits_lab.results import results
from fewbits_lab.studies.federated_mnist import text as federated_mnist


def test_methods_with_shifts_and_differences_converge_where_dcgd_stalls() -> None:
    found = results("methods-mushrooms")
    assert (found["workers"], found["d"]) == (20, 112)
    ends = {(run["method"], run["operator"]): run["end"] for run in found["runs"]}
    assert ends["dcgd", "natural"] > 1e-5
    assert ends["dcgd, both ways", "natural"] > 1e-5
    for method in ("diana", "ef-bv", "ef21", "marina", "dasha"):
        assert ends[method, "natural"] <= 1e-9
    reached = {run["method"] for run in found["runs"] if run["reached"]}
    assert reached >= {"none", "dcgd", "ef14", "ef21", "diana", "ef-bv", "marina", "dasha"}


def test_regressions_take_as_few_bits_as_the_page_says() -> None:
    found = {
        (row["data"], row["kind"], row["operator"]): row
        for row in results("oc-regressions")["rows"]
    }
    biased, unbiased = "biased sparse dithering", "unbiased sparse dithering"
    for operator in (biased, unbiased):
        for data in ("diabetes", "breast cancer"):
            assert found[data, "ridge", operator]["times_less_sections"] >= 6
        assert found["breast cancer", "logistic", operator]["times_less_sections"] >= 4.5
    for operator in (biased, unbiased, "spherical"):
        row = found["w8a", "logistic", operator]
        assert row["d"] == 300
        assert row["times_less_frames"] >= 5


def test_federated_updates_are_as_good_with_seven_times_fewer_bytes() -> None:
    found = results("federated-mnist")
    assert (found["settings"]["clients"], found["settings"]["dirichlet"]) == (10, 0.3)
    assert len(found["settings"]["seeds"]) == 3
    rows = {row["name"]: row for row in federated_mnist.summaries()}
    for name in ("natural", "natural-dithering", "sparse-dithering"):
        assert rows[name]["equal"]
        assert rows[name]["smaller"] >= 7


def test_the_scale_study_goes_to_ten_thousand_clients() -> None:
    rows = results("federated-scale")["rows"]
    assert {row["clients"] for row in rows} == {10, 100, 1000, 10_000}
    for row in rows:
        if row["operator"] in ("natural", "natural-dithering", "sparse-dithering"):
            assert row["times_less_up"] > 3
