import unittest

from tidepool.stats import mean, median


class StatsTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1.0, 2.0, 6.0]), 3.0)

    def test_median_of_an_odd_count_is_the_middle_one(self):
        self.assertEqual(median([9.0, 1.0, 2.0]), 2.0)

    def test_median_of_an_even_count_lies_between_the_middle_two(self):
        self.assertEqual(median([4.0, 1.0, 2.0, 9.0]), 3.0)

    def test_median_of_nothing_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no heights"):
            median([])


if __name__ == "__main__":
    unittest.main()
