"""The test of claims.py: does it see a row that proves nothing?"""

import unittest

import claims

KNOWN = {"rope/rotations_compose", "alibi-bias-6fe3ce75"}


def table(*rows, sections=claims.SECTIONS):
    text = "".join(f"## {section}. Title\n| claim | made executable by |\n|---|---|\n"
                   "| a | `rope/rotations_compose` |\n" for section in sections)
    return text + "".join(row + "\n" for row in rows)


class Claims(unittest.TestCase):
    def faults(self, *rows, **more):
        return claims.faults_of(table(*rows, **more), KNOWN)[0]

    def test_laws_cases_and_sources_are_enough(self):
        self.assertEqual(self.faults("| b | `alibi-bias-6fe3ce75`, `rope/rotations_compose` |",
                                     "| c | *empirical*: Press et al. 2021 |"), [])

    def test_a_row_with_neither_is_a_fault(self):
        for evidence in ["", "obvious", "*empirical*", "*empirical*: ?"]:
            self.assertEqual(len(self.faults(f"| b | {evidence} |")), 1, evidence)
        self.assertEqual(len(self.faults("| b |")), 1)

    def test_a_name_that_does_not_exist_is_a_fault(self):
        self.assertIn("rope/rotations_composed does not exist", self.faults("| b | `rope/rotations_composed` |")[0])

    def test_a_section_without_a_row_is_a_fault(self):
        self.assertEqual(self.faults(sections=claims.SECTIONS[1:]), ["section 1 has no row"])

    def test_what_is_named_is_collected(self):
        self.assertEqual(claims.faults_of(table(), KNOWN)[1], ["rope/rotations_compose"])


if __name__ == "__main__":
    unittest.main()
