"""What the study of device kernels takes from the reports of its tests."""

from pathlib import Path

from fewbits_lab.devices import suites

REPORT = """<testsuites><testsuite>
<testcase name="test_a[1]"><properties><property name="frames" value="natural float32 40"/>
</properties></testcase>
<testcase name="test_a[2]"><properties><property name="frames" value="natural float32 3"/>
</properties></testcase>
<testcase name="test_b[x]"><failure/></testcase>
<testcase name="test_b[y]"><skipped/></testcase>
<testcase name="test_b[z]"><error/></testcase>
<testcase name="test_b[w]"/>
</testsuite></testsuites>
"""


def test_only_what_has_passed_counts(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = suites.read(report)
    assert found.passed == {"test_a": 2, "test_b": 1}
    assert found.others == ["test_b[x]", "test_b[y]", "test_b[z]"]
    assert found.frames == {"natural float32": 43}


def test_the_suites_are_there() -> None:
    assert all((suites.ROOT_OF_TESTS / own).is_file() for own in suites.SUITES.values())
