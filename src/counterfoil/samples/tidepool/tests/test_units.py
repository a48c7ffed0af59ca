import unittest

from tidepool.units import to_metres


class UnitsTest(unittest.TestCase):
    def test_metres_stay_metres(self):
        self.assertEqual(to_metres(1.5, "m"), 1.5)

    def test_ten_feet_are_about_three_metres(self):
        self.assertAlmostEqual(to_metres(10, "ft"), 3.048)

    def test_an_unknown_unit_is_refused(self):
        with self.assertRaisesRegex(ValueError, "fathom"):
            to_metres(1, "fathom")


if __name__ == "__main__":
    unittest.main()
