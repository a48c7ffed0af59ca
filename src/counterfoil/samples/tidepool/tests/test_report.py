import unittest

from tidepool.report import clock, report

TABLE = """\
# Port Example, heights above chart datum
2026-03-01 00:00   2.00 m
2026-03-01 06:05   0.00 m
2026-03-01 12:10   6.56 ft
"""


class ReportTest(unittest.TestCase):
    def test_clock_times_have_two_digits(self):
        self.assertEqual(clock(365), "06:05")

    def test_a_day_names_its_stretch_and_the_sum(self):
        self.assertEqual(report(TABLE, 1.0), "03:02 to 09:07\n365 minutes below 1.0 m")

    def test_a_day_without_a_stretch_says_so(self):
        self.assertEqual(report(TABLE, -1.0), "never below -1.0 m")


if __name__ == "__main__":
    unittest.main()
